from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu_backend_cpu import memory


class OldProducer:
    """Speaks DLPack without versions, as most libraries did before 2024."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class NewProducer(OldProducer):
    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


class Stubborn(OldProducer):
    def __dlpack__(self, stream: Any = None) -> Any:
        raise BufferError("requires grad")


class Interface:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng().standard_normal((5, 7)).astype(np.float32)


@pytest.mark.parametrize("wrap", [lambda array: array, OldProducer, NewProducer, Interface])
def test_an_array_is_taken_where_it_lies(values, wrap):
    for writable in (False, True):
        taken = memory.import_array(wrap(values), writable=writable)
        assert taken.address == values.ctypes.data
        assert taken.shape == (5, 7)
        assert taken.dtype == "float32"
        assert taken.nbytes == values.nbytes


@pytest.mark.parametrize("wrap", [lambda array: array, NewProducer, Interface])
def test_a_read_only_array_is_read_but_not_written(values, wrap):
    values.flags.writeable = False
    assert memory.import_array(wrap(values), writable=False).address == values.ctypes.data
    with pytest.raises(XpuLaunchException, match="not writable"):
        memory.import_array(wrap(values), writable=True)


def test_a_memory_map_is_taken(tmp_path, values):
    values.tofile(tmp_path / "weights")
    mapped = np.memmap(tmp_path / "weights", np.float32, "r", shape=(5, 7))
    taken = memory.import_array(mapped, writable=False)
    del mapped
    np.testing.assert_array_equal(memory.host_view(taken), values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda array: array.T, "ascontiguousarray"),
        (lambda array: array[:, ::2], "not C-contiguous"),
        (lambda array: array.astype(array.dtype.newbyteorder()), "byte order"),
        (lambda _: np.zeros(21, np.uint8)[1:].view(np.float32), "not aligned"),
        (lambda array: array.tolist(), "list is no array"),
        (lambda _: None, "NoneType is no array"),
        (lambda array: OldProducer(array, (2, 3)), "another device .* number 3"),
        (lambda array: Stubborn(array), "requires grad"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(values, change, message):
    with pytest.raises(XpuLaunchException, match=message):
        memory.import_array(change(values), writable=False)


def test_an_empty_array_is_taken():
    assert memory.import_array(np.zeros((0, 4), np.float32), writable=True).nbytes == 0


@pytest.mark.parametrize(
    ("nbytes", "alignment"), [(0, 64), (1, 64), (4097, 64), (3 << 20, 2 << 20)]
)
def test_memory_is_aligned_and_poisoned(open_device, nbytes, alignment):
    device = open_device(1)
    array = device.allocate(nbytes, poisoned=True)
    assert array.address % alignment == 0
    found = device.to_host(array)
    assert found.shape == (nbytes,)
    assert (found == 0xFF).all()
    if nbytes % 4 == 0:
        assert np.isnan(found.view(np.float32)).all()


def test_copies_go_both_ways_and_share_nothing(open_device, values):
    device = open_device(1)
    there = device.from_host(values.T)
    back = device.to_host(there)
    np.testing.assert_array_equal(back, values.T)
    device.poison(there)
    np.testing.assert_array_equal(back, values.T)
    assert np.isnan(device.to_host(there)).all()
    assert there.address % 64 == 0


def test_a_tensor_of_torch_is_taken():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    taken = memory.import_array(tensor, writable=True)
    assert taken.address == tensor.data_ptr()
