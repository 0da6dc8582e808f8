"""Element types by name, and arrays of bfloat16 taken through DLPack."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from dlpack_producer import HEADS, Producer

from xpu.spec import Argument, DeviceArray, host_dtype, is_float, numpy_view


@pytest.mark.parametrize("protocol", HEADS)
def test_bfloat16_is_viewed_as_its_bits_where_it_lies(protocol: str) -> None:
    bits = np.arange(6, dtype=np.uint16).reshape(2, 3)
    producer = Producer(bits, protocol)
    view, dtype = numpy_view(producer)
    assert (dtype, view.dtype, view.shape) == ("bfloat16", np.uint16, (2, 3))
    assert view.ctypes.data == bits.ctypes.data
    assert producer.deleted == 0
    del view
    gc.collect()
    assert producer.deleted == 1


def test_other_types_come_as_they_are() -> None:
    halves = np.ones(4, np.float16)
    view, dtype = numpy_view(halves)
    assert (dtype, view.ctypes.data) == ("float16", halves.ctypes.data)
    view, dtype = numpy_view(Producer(halves.view(np.uint16), "dltensor_versioned", code=2))
    assert (dtype, view.tolist()) == ("float16", [1.0] * 4)


def test_what_numpy_has_not_is_refused_in_its_words() -> None:
    with pytest.raises((BufferError, RuntimeError), match="dtype"):
        numpy_view(Producer(np.zeros(4, np.uint16), "dltensor_versioned", code=99))


def test_bfloat16_is_of_two_bytes_and_floating_on_every_host() -> None:
    assert host_dtype("bfloat16") == np.uint16
    assert host_dtype("float16") == np.float16
    assert [is_float(name) for name in ("bfloat16", "float16", "uint16")] == [True, True, False]
    assert DeviceArray(0, (3, 5), "bfloat16", None).nbytes == 30
    with pytest.raises(TypeError):
        host_dtype("bfloat17")


def test_an_argument_of_bfloat16_takes_its_bits_and_no_other_type() -> None:
    narrow, half = Argument("x", "bfloat16", "read"), Argument("x", "float16", "read")
    names = ("bfloat16", "uint16", "float16", "int16", "float32")
    assert [narrow.takes(name) for name in names] == [True, True, False, False, False]
    assert [half.takes(name) for name in names] == [False, False, True, False, False]
