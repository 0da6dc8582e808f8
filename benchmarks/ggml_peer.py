"""ggml's own CPU matrix products, driven through ctypes: the peer that the benchmarks stand beside.

A `Ggml` holds a CPU backend with a pool of threads that outlives the calls; a `Matmul` holds one
weight matrix in one of ggml's buffer types and a graph that is built once and run many times.
It never builds, fetches or imports ggml: it loads libraries that are there already. The benchmarks
beside it import it; as a program it prints what the peer does on this machine.
Source of all declarations: ggml.h, ggml-backend.h and ggml-cpu.h of ggml 0.25.3.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from itertools import count, takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

FORMATS: Final = {"q4_k": 12, "q5_k": 13, "q6_k": 14}  # Source: enum ggml_type
INSTALL: Final = (
    'CXXFLAGS="-fno-tree-dse -fno-dse" CMAKE_ARGS="-DGGML_NATIVE=ON" pip install --no-cache-dir '
    "llama-cpp-python==0.3.36; then name its llama_cpp/lib by --ggml-lib or GGML_LIB_DIR"
)
IDLE_SHARE: Final = 0.1  # of one core: less is no spinning worker
_TO_FLOAT: Final = 40  # bytes from the start. Source: struct ggml_type_traits


class _InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


_TYPES: Final = (None, c_void_p, c_int, c_int64, c_size_t, c_bool, c_char_p, _InitParams)
_CODES: Final[dict[str, Any]] = dict(zip("vpilzbsI", _TYPES, strict=True))
_SIGNATURES: Final = {  # name without "ggml_", colon, code of the result, codes of the parameters
    "base": """version:s log_set:vpp init:pI free:vp row_size:zil nbytes:zp mul_mat:pppp
        new_tensor_2d:ppill new_graph_custom:ppzb build_forward_expand:vpp get_type_traits:pi
        quantize_chunk:zipplllp quantize_free:v threadpool_params_init:vpi backend_free:vp
        backend_alloc_ctx_tensors_from_buft:ppp backend_buffer_free:vp backend_buffer_get_size:zp
        backend_buft_name:sp backend_tensor_set:vppzz backend_tensor_get:vppzz
        backend_supports_op:bpp backend_graph_compute:ipp backend_get_device:pp
        backend_get_default_buffer_type:pp backend_reg_get_proc_address:pps""",
    "cpu": """backend_cpu_init:p backend_cpu_reg:p backend_cpu_set_n_threads:vpi
        backend_cpu_set_threadpool:vpp threadpool_new:pp threadpool_pause:vp threadpool_free:vp""",
}
_SILENCE: Final = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)(lambda *_: None)


def find_libraries(lib_dir: str | Path | None = None) -> Path:
    """Return `lib_dir`, else $GGML_LIB_DIR, else llama_cpp's; raise with what to install."""
    given = lib_dir or os.environ.get("GGML_LIB_DIR")
    spec = None if given else importlib.util.find_spec("llama_cpp")
    package = [Path(p) / "lib" for p in (spec and spec.submodule_search_locations) or ()]
    for place in [Path(given)] if given else package:
        if all(any(place.glob(f"libggml-{part}.*")) for part in _SIGNATURES):
            return place
    looked = given or "the package llama_cpp, and neither --ggml-lib nor GGML_LIB_DIR is given"
    raise FileNotFoundError(f"no libggml-base and libggml-cpu in {looked}. Install: {INSTALL}")


def _load(directory: Path) -> SimpleNamespace:
    api = SimpleNamespace()
    for part, signatures in _SIGNATURES.items():
        path = min(directory.glob(f"libggml-{part}.*"), key=lambda found: len(found.name))
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        for name, codes in (signature.split(":") for signature in signatures.split()):
            function = getattr(library, f"ggml_{name}")
            function.restype, *function.argtypes = (_CODES[code] for code in codes)
            setattr(api, name, function)
    api.log_set(_SILENCE, None)  # amx writes a line for each weight that it takes
    return api


class Ggml:
    """ggml's CPU backend with `threads` threads; `close` it when done.

    `check` runs each extra buffer type once in a child process, and leaves those that crash out
    of `buffer_types` (name -> handle), named in `crashing`.
    """

    def __init__(self, lib_dir: str | Path | None, threads: int, *, check: bool = True) -> None:
        directory = find_libraries(lib_dir)
        self.api = api = _load(directory)
        self.version: Final[str] = api.version().decode()
        self.stack: Final = ExitStack()
        self.stack.callback(api.quantize_free)
        params = ctypes.create_string_buffer(1024)  # struct ggml_threadpool_params has 532 bytes
        api.threadpool_params_init(params, threads)  # its polling outlasts any pause between runs
        self._pool = api.threadpool_new(params)
        self.stack.callback(api.threadpool_free, self._pool)
        self.backend: Final[int] = api.backend_cpu_init()
        self.stack.callback(api.backend_free, self.backend)
        api.backend_cpu_set_n_threads(self.backend, threads)
        api.backend_cpu_set_threadpool(self.backend, self._pool)
        found = self._find_buffer_types()
        self.crashing: Final = [n for n in [*found][1:] if check and not _survives(directory, n)]
        self.buffer_types: Final = {n: h for n, h in found.items() if n not in self.crashing}

    def _find_buffer_types(self) -> dict[str, int]:
        """Return name -> handle: `plain`, then the extra ones in ggml's order of preference."""
        api, cpu = self.api, self.api.backend_cpu_reg()
        handles = [api.backend_get_default_buffer_type(self.backend)]
        address = api.backend_reg_get_proc_address(cpu, b"ggml_backend_dev_get_extra_bufts")
        if address:
            extra = ctypes.CFUNCTYPE(POINTER(c_void_p), c_void_p)(address)
            array = extra(api.backend_get_device(self.backend))  # ends with NULL
            handles += takewhile(bool, map(array.__getitem__, count()))
        names = [api.backend_buft_name(handle).decode().lower() for handle in handles[1:]]
        return dict(zip(["plain", *(n.removeprefix("cpu_") for n in names)], handles, strict=True))

    def quantize(self, fmt: str, weights: Floats) -> Bytes:
        """Quantise float32 `weights` (N, K) to blocks (N, bytes per row); K a multiple of 256."""
        (n, k), kind = weights.shape, FORMATS[fmt.lower()]
        source = np.ascontiguousarray(weights, np.float32)
        blocks = np.empty((n, self.api.row_size(kind, k)), np.uint8)
        self.api.quantize_chunk(kind, source.ctypes.data, blocks.ctypes.data, 0, n, k, None)
        return blocks

    def dequantize(self, fmt: str, blocks: Bytes) -> Floats:
        """Return `blocks` (N, bytes per row) as float32 (N, K), by ggml's reader of the format."""
        kind, source = FORMATS[fmt.lower()], np.ascontiguousarray(blocks)
        k = source.shape[1] // self.api.row_size(kind, 256) * 256  # weights in a block: QK_K
        weights = np.empty((source.shape[0], k), np.float32)
        address = c_void_p.from_address(self.api.get_type_traits(kind) + _TO_FLOAT).value or 0
        to_float = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int64)(address)
        to_float(source.ctypes.data, weights.ctypes.data, weights.size)
        return weights

    def supported(self, fmt: str, blocks: Bytes, x: Floats) -> list[str]:
        """Return the buffer types that have a kernel for `blocks` and `x` (M, K)."""
        names = []
        for name in self.buffer_types:
            with suppress(ValueError):
                Matmul(self, fmt, blocks, x, name).close()
                names.append(name)
        return names

    def quiet(self, timeout_s: float = 2.0) -> bool:
        """Wait until idle workers sleep, so that they take no core from what is timed next.

        Pauses ggml's own pool (its next product wakes it), then waits until the process uses
        under `IDLE_SHARE` of a core, as OpenMP's workers spin on a while. False: it never did.
        """
        self.api.threadpool_pause(self._pool)
        deadline, share = time.perf_counter() + timeout_s, 1.0
        while share > IDLE_SHARE and time.perf_counter() < deadline:
            wall, used = time.perf_counter(), time.process_time()
            time.sleep(0.004)
            share = (time.process_time() - used) / (time.perf_counter() - wall)
        return share <= IDLE_SHARE

    def close(self) -> None:
        """Free every product, the backend and the pool; the libraries stay loaded."""
        self.stack.close()


class Matmul:
    """y (M, N) = x (M, K) · weights (N, K)ᵀ. One at a time: products share their backend.

    Raises `ValueError` when the build lacks `buffer_type`, or that has no kernel for the tensor.
    """

    def __init__(self, ggml: Ggml, fmt: str, blocks: Bytes, x: Floats, buffer_type: str) -> None:
        if buffer_type not in ggml.buffer_types:
            raise ValueError(f"no buffer type {buffer_type!r}, only {', '.join(ggml.buffer_types)}")
        self._api, self._backend = api, _ = ggml.api, ggml.backend
        (m, k), n, source = x.shape, len(blocks), np.ascontiguousarray(blocks)
        with ExitStack() as stack:
            # 16 KiB each: two tensors and a graph of eight nodes take under 4
            held, rest = (api.init(_InitParams(1 << 14, None, True)) for _ in range(2))
            for context in (held, rest):
                stack.callback(api.free, context)
            w = api.new_tensor_2d(held, FORMATS[fmt.lower()], k, n)
            if api.nbytes(w) != source.nbytes:
                raise ValueError(f"{fmt}, {n} x {k}: {source.nbytes} bytes, not {api.nbytes(w)}")
            self.weight_bytes: Final[int] = self._place(stack, held, ggml.buffer_types[buffer_type])
            inputs = api.new_tensor_2d(rest, 0, k, m)  # 0: GGML_TYPE_F32
            self._y, self._shape = api.mul_mat(rest, w, inputs), (m, n)
            if not api.backend_supports_op(self._backend, self._y):
                raise ValueError(f"{buffer_type} has no kernel for {fmt}, m {m}, n {n}, k {k}")
            self._graph = api.new_graph_custom(rest, 8, False)
            api.build_forward_expand(self._graph, self._y)
            self._place(stack, rest, ggml.buffer_types["plain"])
            for tensor, array in ((w, source), (inputs, np.ascontiguousarray(x, np.float32))):
                api.backend_tensor_set(tensor, array.ctypes.data, 0, array.nbytes)
            self._compute, self._stack = api.backend_graph_compute, stack.pop_all()
        ggml.stack.callback(self.close)

    def _place(self, stack: ExitStack, context: int, buffer_type: int) -> int:
        buffer = self._api.backend_alloc_ctx_tensors_from_buft(context, buffer_type)
        if not buffer:
            raise MemoryError("ggml could not allocate a buffer")
        stack.callback(self._api.backend_buffer_free, buffer)
        return int(self._api.backend_buffer_get_size(buffer))

    def run(self) -> None:
        """Compute once; returns when the result is there."""
        if status := self._compute(self._backend, self._graph):
            raise RuntimeError(f"ggml_backend_graph_compute returned {status}")

    def result(self) -> Floats:
        """Return a copy of y (M, N)."""
        y = np.empty(self._shape, np.float32)
        self._api.backend_tensor_get(self._y, y.ctypes.data, 0, y.nbytes)
        return y

    def close(self) -> None:
        """Free weights, activations and graph; `run` and `result` raise `AttributeError` then."""
        self._stack.close()
        for name in {"_y", "_compute"} & vars(self).keys():
            delattr(self, name)


def _survives(directory: Path, name: str) -> bool:
    """Run one product in buffer type `name` in a child process: gcc before 13.2 breaks amx."""
    command = [sys.executable, __file__, "--ggml-lib", str(directory), "--try-out", name]
    # S603: the command is this file's own
    return subprocess.run(command, capture_output=True, check=False).returncode >= 0  # noqa: S603 - ours


def last_level_cache_bytes() -> int:
    """Return the size of the largest cache that the first core sees. Source: Linux sysfs."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max(int(size.read_text().strip().removesuffix("K")) * 1024 for size in sizes)


def time_us(products: list[Matmul], passes: int, *, warm: bool) -> npt.NDArray[np.float64]:
    """Return µs (passes, products) of `run`, visited in turn; `warm`: each after an untimed run."""
    times = np.empty((passes + 1, len(products)))
    for visit, arm in np.ndindex(times.shape):
        if warm:
            products[arm].run()
        start = time.perf_counter_ns()
        products[arm].run()
        times[visit, arm] = (time.perf_counter_ns() - start) / 1e3
    return times[1:]


def _report(ggml: Ggml, fmt: str, blocks: Bytes, m: int, *, cold: bool = False) -> None:
    """Print a row for each buffer type: median, spread, rates, errors against float64."""
    weights = ggml.dequantize(fmt, blocks)
    x = np.random.default_rng(m).standard_normal((m, weights.shape[1]), np.float32)
    exact = x.astype(np.float64) @ weights.T.astype(np.float64)
    scale = np.linalg.norm(weights, axis=1) * np.sqrt(np.mean(x * x, axis=1, keepdims=True))
    names = ggml.supported(fmt, blocks, x)
    for group in [[name] for name in names] if cold else [names]:
        products = [Matmul(ggml, fmt, blocks, x, name) for name in group]
        copies = 4 * last_level_cache_bytes() // products[0].weight_bytes if cold else 0
        products += [Matmul(ggml, fmt, blocks, x, group[0]) for _ in range(copies)]
        times = time_us(products, 3 if cold else max(20, 200 // m), warm=not cold)
        columns = [times] if cold else times.T
        for name, product, column in zip(group, products, columns, strict=False):
            error = np.abs(product.result() - exact) / scale
            least, low, median, high = np.percentile(column, (0, 25, 50, 75))
            print(f"{fmt} m={m:<4}{'cold' if cold else 'warm'} {name:7}{median:10.1f} µs "
                  f"(least {least:.1f}, quartiles {low:.1f} {high:.1f}) "
                  f"{2e-3 * m * weights.size / median:.1f} GFLOP/s "
                  f"{product.weight_bytes / median / 1e3:.1f} GB/s, error rms "
                  f"{np.sqrt(np.mean(error**2)):.4f}, max {error.max():.4f}")  # fmt: skip
        for product in products:
            product.close()


def main() -> None:
    """Print what the peer does on this machine."""
    parser = argparse.ArgumentParser(description="Time ggml's CPU matrix products by buffer type.")
    parser.add_argument("--ggml-lib", metavar="DIR", help="directory of libggml-base, libggml-cpu")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--try-out", metavar="TYPE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    with closing(Ggml(args.ggml_lib, args.threads, check=not args.try_out)) as ggml:
        draw = np.random.default_rng(0).standard_normal
        tiny = ggml.quantize("q4_k", draw((32, 256), np.float32))
        if args.try_out:
            Matmul(ggml, "q4_k", tiny, draw((32, 256), np.float32), args.try_out).run()
            return
        print(f"ggml {ggml.version}, {args.threads} threads; types that crash: {ggml.crashing}")
        _report(ggml, "q4_k", tiny, 1)
        for fmt in ("q4_k", "q6_k"):
            blocks = ggml.quantize(fmt, draw((4096, 4096), np.float32))
            for m in (1, 4, 16, 512):
                _report(ggml, fmt, blocks, m)
            _report(ggml, fmt, blocks, 1, cold=True)


if __name__ == "__main__":
    main()
