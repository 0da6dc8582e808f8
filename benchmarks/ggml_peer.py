"""ggml's own CPU matrix products, driven through ctypes: the peer that the benchmarks stand beside.

A `Ggml` holds one CPU backend with a thread pool that outlives the calls; a `Matmul` holds one
weight matrix in one of ggml's buffer types, with a graph that is built once and run many times.
It never builds, fetches or imports ggml: it loads shared libraries that are there already.
The other benchmarks import it; as a program it prints what the peer does on this machine.

Source of every declaration: ggml.h, ggml-alloc.h, ggml-backend.h and ggml-cpu.h of ggml 0.25.3.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import time
import weakref
from contextlib import ExitStack
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

FORMATS: Final = {"q4_k": 12, "q5_k": 13, "q6_k": 14}  # Source: enum ggml_type, ggml.h
BUFFER_NAMES: Final = {"CPU": "plain", "CPU_REPACK": "repack", "AMX": "amx"}
INSTALL: Final = (
    'CMAKE_ARGS="-DGGML_NATIVE=ON" python -m pip install --no-binary llama-cpp-python '
    "llama-cpp-python==0.3.36, then give the directory llama_cpp/lib of that environment "
    "as --ggml-lib DIR or in GGML_LIB_DIR"
)
_F32: Final = 0  # Source: GGML_TYPE_F32
_LOG_ERROR: Final = 4  # Source: enum ggml_log_level
_MAX_THREADS: Final = 512  # Source: GGML_MAX_N_THREADS


class _InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


class _PoolParams(ctypes.Structure):
    _fields_ = [
        ("cpumask", c_bool * _MAX_THREADS),
        ("n_threads", c_int),
        ("prio", c_int),
        ("poll", c_uint32),
        ("strict_cpu", c_bool),
        ("paused", c_bool),
    ]


_ToFloat = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int64)


class _TypeTraits(ctypes.Structure):
    _fields_ = [
        ("type_name", c_char_p),
        ("blck_size", c_int64),
        ("blck_size_interleave", c_int64),
        ("type_size", c_size_t),
        ("is_quantized", c_bool),
        ("to_float", _ToFloat),
        ("from_float_ref", c_void_p),
    ]


class _Feature(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


_P, _I = c_void_p, c_int
_BASE: Final[dict[str, tuple[Any, list[Any]]]] = {
    "ggml_version": (c_char_p, []),
    "ggml_log_set": (None, [_P, _P]),
    "ggml_init": (_P, [_InitParams]),
    "ggml_free": (None, [_P]),
    "ggml_row_size": (c_size_t, [_I, c_int64]),
    "ggml_nbytes": (c_size_t, [_P]),
    "ggml_tensor_overhead": (c_size_t, []),
    "ggml_graph_overhead_custom": (c_size_t, [c_size_t, c_bool]),
    "ggml_new_tensor_2d": (_P, [_P, _I, c_int64, c_int64]),
    "ggml_mul_mat": (_P, [_P, _P, _P]),
    "ggml_new_graph_custom": (_P, [_P, c_size_t, c_bool]),
    "ggml_build_forward_expand": (None, [_P, _P]),
    "ggml_quantize_chunk": (c_size_t, [_I, _P, _P, c_int64, c_int64, c_int64, POINTER(c_float)]),
    "ggml_quantize_free": (None, []),
    "ggml_get_type_traits": (POINTER(_TypeTraits), [_I]),
    "ggml_threadpool_params_init": (None, [POINTER(_PoolParams), _I]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_P, [_P, _P]),
    "ggml_backend_buffer_free": (None, [_P]),
    "ggml_backend_buffer_get_size": (c_size_t, [_P]),
    "ggml_backend_buffer_set_usage": (None, [_P, _I]),
    "ggml_backend_buft_name": (c_char_p, [_P]),
    "ggml_backend_tensor_set": (None, [_P, _P, c_size_t, c_size_t]),
    "ggml_backend_tensor_get": (None, [_P, _P, c_size_t, c_size_t]),
    "ggml_backend_supports_op": (c_bool, [_P, _P]),
    "ggml_backend_graph_compute": (_I, [_P, _P]),
    "ggml_backend_get_device": (_P, [_P]),
    "ggml_backend_get_default_buffer_type": (_P, [_P]),
    "ggml_backend_reg_get_proc_address": (_P, [_P, c_char_p]),
    "ggml_backend_free": (None, [_P]),
}
_CPU: Final[dict[str, tuple[Any, list[Any]]]] = {
    "ggml_backend_cpu_init": (_P, []),
    "ggml_backend_cpu_reg": (_P, []),
    "ggml_backend_cpu_set_n_threads": (None, [_P, _I]),
    "ggml_backend_cpu_set_threadpool": (None, [_P, _P]),
    "ggml_threadpool_new": (_P, [POINTER(_PoolParams)]),
    "ggml_threadpool_pause": (None, [_P]),
    "ggml_threadpool_free": (None, [_P]),
}


@ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
def _log(level: int, text: bytes, _user: object) -> None:
    """Pass on errors alone: the AMX buffer type logs a line for each weight it takes."""
    if level == _LOG_ERROR:
        sys.stderr.write(text.decode(errors="replace"))


def find_libraries(lib_dir: str | Path | None = None) -> Path:
    """Return the directory that holds libggml-base and libggml-cpu.

    Looks in `lib_dir` alone when it is given, else in $GGML_LIB_DIR, else in an installed
    `llama_cpp` package (found, not imported).

    Raises
    ------
    FileNotFoundError
        When no place holds both; the text says what to install.
    """
    places = [Path(p) for p in (lib_dir or os.environ.get("GGML_LIB_DIR"),) if p]
    if not places and (spec := importlib.util.find_spec("llama_cpp")):
        places = [Path(p) / "lib" for p in spec.submodule_search_locations or ()]
    for place in places:
        if all(any(place.glob(f"libggml-{part}.*")) for part in ("base", "cpu")):
            return place
    looked = ", ".join(map(str, places)) or "--ggml-lib, $GGML_LIB_DIR and llama_cpp: none is set"
    raise FileNotFoundError(f"no libggml-base and libggml-cpu in {looked}. Install: {INSTALL}")


def _load(directory: Path, part: str, table: dict[str, tuple[Any, list[Any]]]) -> Any:
    name = min(directory.glob(f"libggml-{part}.*"), key=lambda path: len(path.name))
    library: Any = ctypes.CDLL(str(name), mode=ctypes.RTLD_GLOBAL)
    for function, (result, arguments) in table.items():
        declared = getattr(library, function)
        declared.restype, declared.argtypes = result, arguments
    return library


class Ggml:
    """ggml's CPU backend with `threads` threads. Close it, or use it in `with`.

    Parameters
    ----------
    lib_dir : directory of the libraries, or None to look as `find_libraries` does.
    threads : threads of every product.
    poll : 0 (sleep at once) to 100 (spin longest): how long an idle worker of ggml's own pool
        waits for the next graph. Without effect in a build with OpenMP, whose runtime decides.
    """

    def __init__(self, lib_dir: str | Path | None, threads: int, *, poll: int = 100) -> None:
        directory = find_libraries(lib_dir)
        self.base = base = _load(directory, "base", _BASE)
        self._cpu = cpu = _load(directory, "cpu", _CPU)
        base.ggml_log_set(_log, None)
        self.threads: Final = threads
        self.version: Final[str] = base.ggml_version().decode()
        self._stack = ExitStack()
        self._matmuls: weakref.WeakSet[Matmul] = weakref.WeakSet()
        self._stack.callback(base.ggml_quantize_free)
        params = _PoolParams()
        base.ggml_threadpool_params_init(params, threads)
        params.poll = poll
        self._pool = cpu.ggml_threadpool_new(params)
        self._stack.callback(cpu.ggml_threadpool_free, self._pool)
        self.backend: Final[int] = cpu.ggml_backend_cpu_init()
        self._stack.callback(base.ggml_backend_free, self.backend)
        cpu.ggml_backend_cpu_set_n_threads(self.backend, threads)
        cpu.ggml_backend_cpu_set_threadpool(self.backend, self._pool)
        self.buffer_types: Final = self._enumerate_buffer_types()
        self.features: Final = self._read_features()

    def _procedure(self, name: str, result: Any) -> Any:
        found = self.base.ggml_backend_reg_get_proc_address(
            self._cpu.ggml_backend_cpu_reg(), name.encode()
        )
        return ctypes.CFUNCTYPE(result, c_void_p)(found) if found else None

    def _enumerate_buffer_types(self) -> dict[str, int]:
        """Name -> handle: `plain` first, then each extra type in ggml's order of preference."""
        handles = [self.base.ggml_backend_get_default_buffer_type(self.backend)]
        extra = self._procedure("ggml_backend_dev_get_extra_bufts", POINTER(c_void_p))
        if extra:
            listed = extra(self.base.ggml_backend_get_device(self.backend))
            position = 0
            while listed[position]:  # the array ends with NULL
                handles.append(listed[position])
                position += 1
        names = [self.base.ggml_backend_buft_name(handle).decode() for handle in handles]
        return {BUFFER_NAMES.get(n, n.lower()): h for n, h in zip(names, handles, strict=True)}

    def _read_features(self) -> dict[str, str]:
        """What the library was built for, for instance AVX512_VNNI, AMX_INT8, OPENMP, REPACK."""
        function = self._procedure("ggml_backend_get_features", POINTER(_Feature))
        features: dict[str, str] = {}
        listed = function(self._cpu.ggml_backend_cpu_reg()) if function else None
        while listed and listed[len(features)].name:
            entry = listed[len(features)]
            features[entry.name.decode()] = entry.value.decode()
        return features

    def quantize(self, fmt: str, weights: Floats) -> Bytes:
        """Quantise float32 `weights` (N, K) to blocks (N, bytes per row); K a multiple of 256."""
        (n, k), kind = weights.shape, FORMATS[fmt.lower()]
        source = np.ascontiguousarray(weights, np.float32)
        blocks = np.empty((n, self.base.ggml_row_size(kind, k)), np.uint8)
        self.base.ggml_quantize_chunk(kind, source.ctypes.data, blocks.ctypes.data, 0, n, k, None)
        return blocks

    def dequantize(self, fmt: str, blocks: Bytes) -> Floats:
        """Turn `blocks` (N, bytes per row) to float32 (N, K) by ggml's own reader of the format."""
        traits = self.base.ggml_get_type_traits(FORMATS[fmt.lower()]).contents
        source = np.ascontiguousarray(blocks)
        k = source.shape[1] // traits.type_size * traits.blck_size
        weights = np.empty((source.shape[0], k), np.float32)
        traits.to_float(source.ctypes.data, weights.ctypes.data, weights.size)
        return weights

    def matmul(self, fmt: str, blocks: Bytes, x: Floats, buffer_type: str = "plain") -> Matmul:
        """Place a copy of `blocks` in `buffer_type` and build the graph of its product with `x`.

        Raises
        ------
        ValueError
            When that buffer type is not in this build, or has no kernel for this tensor.
        """
        product = Matmul(self, fmt, blocks, x, buffer_type)
        self._matmuls.add(product)
        return product

    def supported(self, fmt: str, m: int, n: int, k: int) -> tuple[str, ...]:
        """Return the buffer types with a kernel for weights (N, K) of `fmt`, activations (M, K)."""
        blocks = np.zeros((n, self.base.ggml_row_size(FORMATS[fmt.lower()], k)), np.uint8)
        names = []
        for name in self.buffer_types:
            try:
                Matmul(self, fmt, blocks, np.zeros((m, k), np.float32), name).close()
            except ValueError:
                continue
            names.append(name)
        return tuple(names)

    def quiet(self, timeout_s: float = 2.0) -> bool:
        """Send idle workers to sleep, so that they take no core from whatever is timed next.

        Pauses ggml's own pool (the next product wakes it); an OpenMP runtime spins for a time of
        its own, so this waits until the process uses less than a tenth of one core.
        Returns False when it did not within `timeout_s`.
        """
        self._cpu.ggml_threadpool_pause(self._pool)
        deadline = time.perf_counter() + timeout_s
        while time.perf_counter() < deadline:
            wall, used = time.perf_counter(), time.process_time()
            time.sleep(0.004)
            if time.process_time() - used < 0.1 * (time.perf_counter() - wall):
                return True
        return False

    def close(self) -> None:
        """Free every product, the backend and the pool; the libraries stay loaded."""
        for product in list(self._matmuls):
            product.close()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Matmul:
    """One product y (M, N) = x (M, K) · weights (N, K)ᵀ: made by `Ggml.matmul`, run at will.

    Not for use from several threads at once: all products of a `Ggml` share its backend.
    """

    def __init__(self, ggml: Ggml, fmt: str, blocks: Bytes, x: Floats, buffer_type: str) -> None:
        if buffer_type not in ggml.buffer_types:
            raise ValueError(f"no buffer type {buffer_type!r} here: {', '.join(ggml.buffer_types)}")
        (m, k), n = x.shape, blocks.shape[0]
        self._base = base = ggml.base
        self._backend, self._shape = ggml.backend, (m, n)
        with ExitStack() as stack:
            weights = self._context(stack)
            w = base.ggml_new_tensor_2d(weights, FORMATS[fmt.lower()], k, n)
            self.weight_bytes: Final[int] = self._place(stack, weights, ggml.buffer_types[buffer_type])
            rest = self._context(stack)
            self._x = base.ggml_new_tensor_2d(rest, _F32, k, m)
            self._y = base.ggml_mul_mat(rest, w, self._x)
            if not base.ggml_backend_supports_op(self._backend, self._y):
                raise ValueError(f"{buffer_type} has no kernel for {fmt}, m {m}, n {n}, k {k}")
            self._graph = base.ggml_new_graph_custom(rest, 8, False)
            base.ggml_build_forward_expand(self._graph, self._y)
            self._place(stack, rest, ggml.buffer_types["plain"])
            if blocks.nbytes != base.ggml_nbytes(w):
                raise ValueError(f"{fmt} of {n} x {k} is {base.ggml_nbytes(w)} bytes, not {blocks.nbytes}")
            source = np.ascontiguousarray(blocks)
            base.ggml_backend_tensor_set(w, source.ctypes.data, 0, source.nbytes)
            self.set_activations(x)
            self._compute = base.ggml_backend_graph_compute
            self._stack = stack.pop_all()

    def _context(self, stack: ExitStack) -> int:
        base = self._base
        size = 4 * base.ggml_tensor_overhead() + base.ggml_graph_overhead_custom(8, False)
        context: int = base.ggml_init(_InitParams(size, None, True))
        stack.callback(base.ggml_free, context)
        return context

    def _place(self, stack: ExitStack, context: int, buffer_type: int) -> int:
        buffer = self._base.ggml_backend_alloc_ctx_tensors_from_buft(context, buffer_type)
        if not buffer:
            raise MemoryError("ggml could not allocate a buffer")
        stack.callback(self._base.ggml_backend_buffer_free, buffer)
        size: int = self._base.ggml_backend_buffer_get_size(buffer)
        return size

    def set_activations(self, x: Floats) -> None:
        """Copy float32 `x` (M, K) into the graph's input."""
        source = np.ascontiguousarray(x, np.float32)
        self._base.ggml_backend_tensor_set(self._x, source.ctypes.data, 0, source.nbytes)

    def run(self) -> None:
        """Compute once, on the backend's threads; returns when the result is there."""
        status = self._compute(self._backend, self._graph)
        if status:
            raise RuntimeError(f"ggml_backend_graph_compute returned {status}")

    def result(self) -> Floats:
        """Return a copy of y (M, N)."""
        y = np.empty(self._shape, np.float32)
        self._base.ggml_backend_tensor_get(self._y, y.ctypes.data, 0, y.nbytes)
        return y

    def close(self) -> None:
        """Free the weights, the activations and the graph; a second call does nothing."""

        def closed(*_: object) -> int:
            raise RuntimeError("this product is closed")

        self._compute = closed
        self._stack.close()
