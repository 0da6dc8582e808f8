"""The arrays of callers: taken without a copy, or refused by name."""

from __future__ import annotations

import ctypes
import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from xpu.errors import XpuLaunchException
from xpu.spec import DeviceArray, dlpack

MADE_BY = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Producer:
    """Offers memory through DLPack, and counts how often that is given back."""

    def __init__(
        self,
        shape=(2, 3),
        *,
        strides=None,
        device=(2, 0),
        dtype=(2, 32, 1),
        flags=None,
        address=0xABC000,
        offset=0,
    ) -> None:
        self.deleted: list[int] = []
        self.asked: list[dict[str, Any]] = []
        self.device = device
        self._new = MADE_BY(("PyCapsule_New", ctypes.pythonapi))
        self.is_versioned = flags is not None
        structure = dlpack._Versioned if self.is_versioned else dlpack._Managed
        self.managed = structure()
        self._deleter = DELETER(self.delete)
        self.managed.deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value
        if self.is_versioned:
            self.managed.major, self.managed.flags = 1, flags
        tensor = self.managed.tensor
        tensor.data, tensor.byte_offset, tensor.ndim = address, offset, len(shape)
        tensor.device_type, tensor.device_id = device
        tensor.code, tensor.bits, tensor.lanes = dtype
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        tensor.shape = self._shape
        if strides is not None:
            self._strides = (ctypes.c_int64 * len(strides))(*strides)
            tensor.strides = self._strides
        self._destructor = DESTRUCTOR(self.destroy)

    @property
    def name(self) -> bytes:
        return b"dltensor_versioned" if self.is_versioned else b"dltensor"

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        if not self.is_versioned and "max_version" in asked:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append(asked)
        end = ctypes.cast(self._destructor, ctypes.c_void_p)
        return self._new(ctypes.addressof(self.managed), self.name, end)

    def delete(self, managed) -> None:
        assert managed == ctypes.addressof(self.managed)
        self.deleted.append(managed)

    def destroy(self, capsule) -> None:
        """Free what nobody took, as every producer's capsule does."""
        valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
        if valid(("PyCapsule_IsValid", ctypes.pythonapi))(capsule, self.name):
            self.delete(ctypes.addressof(self.managed))


class Interface:
    """Offers memory through ``__cuda_array_interface__``."""

    def __init__(self, shape=(2, 3), typestr="<f4", data=(0xABC000, False), **more) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": data,
            "version": 3,
            **more,
        }


class Tensor:
    """What torch's tensors answer."""

    requires_grad = False

    def __init__(self, shape=(2, 3), dtype="torch.float32", device=0, is_contiguous=True) -> None:
        self.shape, self.dtype, self.device = shape, dtype, f"cuda:{device}"
        self.is_cuda, self._number, self._is_contiguous = device >= 0, device, is_contiguous

    def get_device(self):
        return self._number

    def is_contiguous(self):
        return self._is_contiguous

    def is_neg(self):
        return False

    def stride(self):
        return (1, 2)

    def data_ptr(self):
        return 0xABC000


@pytest.fixture
def take(fake, opened):
    """Import an array; the memory at 0xABC000 is the first device's."""
    fake.places[0xABC000] = (2, 0)
    fake.places[0xABC010] = (2, 0)
    fake.places[0xDEF000] = (2, 1)
    fake.places[0x111000] = (1, 0)

    def go(value, *, writable=True):
        return opened.import_array(value, writable=writable)

    return go


def refused(take, value, words, **how):
    with pytest.raises(XpuLaunchException, match=words):
        take(value, **how)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "float8_e4m3fn"])
def test_a_tensor_is_asked_directly(take, dtype) -> None:
    tensor = Tensor(dtype=f"torch.{dtype}")
    taken = take(tensor)
    assert taken == DeviceArray(0xABC000, (2, 3), dtype, tensor)
    assert taken.owner is tensor


def test_a_tensor_that_cannot_be_used_is_refused_by_name(take) -> None:
    refused(take, Tensor(device=-1), r"tensor\.cuda\(\)")
    refused(take, Tensor(device=1), "another device, number 1; this one is number 0")
    refused(take, Tensor(is_contiguous=False), r"not contiguous; pass tensor\.contiguous\(\)")
    trained, negative = Tensor(), Tensor()
    trained.requires_grad, negative.is_neg = True, lambda: True
    refused(take, trained, r"requires a gradient; pass tensor\.detach\(\)")
    refused(take, negative, r"lazy negative; pass tensor\.resolve_neg\(\)")


def test_an_interface_is_taken(take) -> None:
    value = Interface(strides=None)
    taken = take(value)
    assert (taken.address, taken.shape, taken.dtype) == (0xABC000, (2, 3), "float32")
    assert taken.owner is value
    assert take(Interface(strides=(12, 4))).shape == (2, 3)
    assert take(Interface((1, 3), strides=(999, 4))).shape == (1, 3)
    assert take(Interface((0, 3), data=(0, False))).nbytes == 0
    assert take(Interface(data=(0xABC000, True)), writable=False).dtype == "float32"


def test_an_interface_that_cannot_be_used_is_refused_by_name(take) -> None:
    refused(take, Interface(data=(0xABC000, True)), "read-only")
    refused(take, Interface(strides=(4, 8)), "not contiguous")
    refused(take, Interface((3, 3), strides=(24, 4)), "not contiguous")
    refused(take, Interface(typestr=">f4"), "byte order")
    refused(take, Interface(mask=Interface()), "mask")
    refused(take, Interface(data=(0xDEF000, False)), "number 1; this one is number 0")
    refused(take, Interface(data=(0x111000, False)), "host memory")
    refused(take, Interface(data=(0x999000, False)), "host memory")


@pytest.mark.parametrize("flags", [None, 0])
def test_dlpack_is_taken_and_given_back_once(take, flags) -> None:
    producer = Producer(flags=flags, offset=16, strides=(3, 1))
    taken = take(producer)
    assert (taken.address, taken.shape, taken.dtype) == (0xABC010, (2, 3), "float32")
    assert producer.asked[-1]["stream"] == 1
    assert ("max_version" in producer.asked[-1]) == (flags is not None)
    gc.collect()
    assert producer.deleted == []
    address = ctypes.addressof(producer.managed)
    del taken
    gc.collect()
    assert producer.deleted == [address]


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ((0, 8, 1), "int8"),
        ((1, 8, 1), "uint8"),
        ((2, 16, 1), "float16"),
        ((4, 16, 1), "bfloat16"),
        ((6, 8, 1), "bool"),
        ((5, 64, 1), "complex64"),
    ],
)
def test_element_types_of_dlpack(take, dtype, name) -> None:
    assert take(Producer(dtype=dtype)).dtype == name


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"device": (1, 0)}, "host memory"),
        ({"device": (3, 0)}, "host memory"),
        ({"device": (15, 0)}, "another kind of device"),
        ({"device": (2, 1)}, "number 1; this one is number 0"),
        ({"strides": (1, 2)}, "not contiguous"),
        ({"flags": 1}, "read-only"),
        ({"flags": 2}, "read-only"),
        ({"dtype": (2, 32, 4)}, "element type"),
        ({"dtype": (17, 4, 1)}, r"element type \(DLPack 17, 4 bits\) is no whole .*uint8"),
        ({"dtype": (0, 4, 1)}, r"element type \(int4\) is no whole number of bytes; .*as uint8"),
        ({"dtype": (1, 2, 1)}, r"element type \(uint2\) is no whole"),
    ],
)
def test_what_cannot_be_used_of_dlpack_stays_its_producers(take, how, words) -> None:
    producer = Producer(**how)
    refused(take, producer, words)
    gc.collect()
    assert len(producer.deleted) == len(producer.asked)


def test_an_unknown_version_of_dlpack_is_refused(take) -> None:
    producer = Producer(flags=0)
    producer.managed.major = 2
    refused(take, producer, "version 2 of DLPack")
    gc.collect()
    assert len(producer.deleted) == 1


def test_a_producer_that_refuses_is_quoted(take, monkeypatch) -> None:
    def refuses(self, **_how):
        raise BufferError("the array requires a gradient")

    monkeypatch.setattr(Producer, "__dlpack__", refuses)
    refused(take, Producer(), "requires a gradient")


def test_a_read_only_array_may_be_read(take) -> None:
    assert take(Producer(flags=1), writable=False).shape == (2, 3)


def test_arrays_that_never_change_are_read_through_dlpack(take, monkeypatch) -> None:
    class Array(Producer, Interface):
        """As JAX has them: it offers both."""

    Array.__module__ = "jaxlib._jax"
    one = Array()
    one.__cuda_array_interface__ = None
    assert take(one, writable=False).dtype == "float32"
    assert len(one.asked) == 1
    refused(take, Array(), "read-only")


def test_numpys_own_capsule_is_read_as_numpy_reads_it() -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    for how in ({}, {"max_version": (1, 0)}):
        capsule = array.__dlpack__(**how)
        value = SimpleNamespace(__dlpack__=lambda capsule=capsule, **_: capsule)
        exported = dlpack.export(value, 1)
        assert (exported.address, exported.shape) == (array.ctypes.data, (3, 4))
        assert (exported.dtype, exported.device) == ("int16", (1, 0))
        assert exported.strides in (None, (4, 1))
        before = __import__("sys").getrefcount(array)
        taken = exported.take()
        with pytest.raises(TypeError, match="somebody has taken"):
            dlpack.export(value, 1)
        del taken, exported, capsule, value
        gc.collect()
        assert __import__("sys").getrefcount(array) == before - 1


def test_a_read_only_capsule_says_so() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    capsule = array.__dlpack__(max_version=(1, 0))
    assert dlpack.export(SimpleNamespace(__dlpack__=lambda **_: capsule), 1).is_read_only


def test_an_array_of_this_backend_goes_to_its_own_device_only(take, fake) -> None:
    from xpu_backend_cuda.device import CudaDevice

    other = CudaDevice(1)
    array = other.allocate(100)
    part = DeviceArray(array.address + 4, (8,), "uint8", array)
    assert other.import_array(part, writable=True) is part
    for each in (array, part):
        refused(take, each, "number 1; this one is number 0")
    refused(take, DeviceArray(0x999000, (8,), "uint8", None), "host memory")
    other.close()


def test_arrays_of_the_host_are_refused_with_what_to_do(take) -> None:
    refused(take, np.zeros(3), r"ndarray lies in host memory.*cupy\.asarray.*from_host")


@pytest.mark.parametrize("value", [None, 3, "text", [1.0], object()])
def test_what_is_no_array_is_refused_by_its_type(take, value) -> None:
    refused(take, value, type(value).__name__)
