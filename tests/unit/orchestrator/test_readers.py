"""Tensors that a library compares at one call: what that may not hide, and when it is used."""

from __future__ import annotations

import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from copy_device import CopyDevice, Torchlike

from xpu.errors import XpuLaunchException
from xpu.orchestrator import readers
from xpu.spec import Argument

THREE = (
    Argument("w", "float32", "read"),
    Argument("x", "float32", "read"),
    Argument("y", "float32", "write"),
)


class Guarded(Torchlike):
    """A tensor of a library with guards."""

    asked = 0

    @property
    def dtype(self):
        type(self).asked += 1
        return super().dtype

    def new_empty(self, *shape):
        return type(self)(np.empty(shape, self.array.dtype))

    def told(self):
        array = self.array
        return (
            type(self),
            array.dtype,
            array.shape,
            array.strides,
            self.device,
            self.requires_grad,
        )


class Guards:
    """What compares as PyTorch's does."""

    made = 0

    def __init__(self, *tensors, dynamic_dims_sizes, dynamic_dims_strides):
        assert dynamic_dims_sizes is dynamic_dims_strides is None
        type(self).made += 1
        self.wanted = [tensor.told() for tensor in tensors]

    def check(self, *tensors):
        if len(tensors) != len(self.wanted):
            raise TypeError("wrong length")
        return [getattr(each, "told", lambda: None)() for each in tensors] == self.wanted


class Credulous(Guards):
    def check(self, *tensors):
        return True


class Verbose(Guards):
    def check(self, *tensors):
        return str(super().check(*tensors))


@pytest.fixture
def device():
    return CopyDevice(moves=True)


@pytest.fixture
def install(monkeypatch):
    def put(guards):
        guards.made = Guarded.asked = 0
        inner = SimpleNamespace(guards=SimpleNamespace(TensorGuards=guards))
        library = SimpleNamespace(_C=SimpleNamespace(_dynamo=inner))
        monkeypatch.setitem(sys.modules, "torch", library)

    return put


def called(kernel, array, times=50):
    for _ in range(times):
        w, x, y = (Guarded(array()) for _ in range(3))
        assert kernel(w, x, out=y) is y
        np.testing.assert_array_equal(y.array, 2 * w.array)


def test_tensors_that_a_guard_knows_are_not_asked_one_by_one(bound, device, array, install):
    install(Guards)
    kernel = bound(arguments=THREE)
    called(kernel, array, 3)
    asked = Guarded.asked
    called(kernel, array)
    assert Guarded.asked == asked + 50  # the first input, for which there is no guard
    assert device.imported == 3


BAD = {
    "longer": lambda x: Guarded(np.append(x, x)),
    "a column": lambda x: Guarded(x[:, None]),
    "whole numbers": lambda x: Guarded(x.view(np.int32)),
    "gaps": lambda x: Guarded(np.repeat(x, 2)[::2]),
    "elsewhere": lambda x: Guarded(x, device="there"),
    "a gradient": lambda x: Guarded(x, requires_grad=True),
    "no array": lambda _: None,
}


@pytest.mark.parametrize("guards", [Guards, Credulous, Verbose])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_what_is_not_alike_is_refused_whatever_the_guard(
    bound, device, array, install, guards, bad
):
    install(guards)
    kernel = bound(arguments=THREE)
    called(kernel, array, 5)
    count = len(device.streams)
    with pytest.raises(XpuLaunchException, match="'x'"):
        kernel(Guarded(array()), bad(array()), out=Guarded(array()))
    with pytest.raises(XpuLaunchException, match="'y'"):
        kernel(Guarded(array()), Guarded(array()), out=bad(array()))
    assert len(device.streams) == count


@pytest.mark.parametrize("shift", [0, 7, -7])
def test_a_result_over_an_input_is_refused_when_a_guard_knows_both(bound, array, install, shift):
    install(Guards)
    kernel, whole = bound(arguments=THREE), np.zeros(24, np.float32)
    called(kernel, array, 3)
    out = Guarded(whole[8 + shift : 16 + shift])
    for first, second in ((whole[8:16], array()), (array(), whole[8:16])):
        with pytest.raises(XpuLaunchException, match="'y' is written and overlaps"):
            kernel(Guarded(first), Guarded(second), out=out)


def test_a_guard_follows_a_program_that_changes_and_not_one_that_alternates(
    bound, device, array, install
):
    class Other(Guarded):
        pass

    install(Guards)
    kernel = bound(arguments=THREE)
    called(kernel, array, 3)
    kernel(Other(array()), Other(array()), out=Other(array()))
    made = Guards.made
    for turn in range(64):
        kind = (Guarded, Other)[turn % 2]
        x, y = kind(array()), kind(array())
        kernel(kind(array()), x, out=y)
    assert Guards.made <= made + 3
    assert device.imported == 6


@pytest.mark.parametrize("guards", [Credulous, Verbose])
def test_a_guard_that_does_not_tell_tensors_apart_is_none(array, install, guards):
    install(guards)
    assert readers.guard(Guarded(array()), Guarded(array())) is None


def test_other_objects_have_no_guard(array, install):
    install(Guards)
    assert readers.guard(Guarded(array()), Guarded(array())) is not None
    assert readers.guard(Guarded(array()), array()) is None


class Signed(Torchlike):
    """A tensor of a library that negates later: of such a view, the address is another's."""

    def __init__(self, array, *, is_negated=False, **more):
        super().__init__(array, **more)
        self.is_negated = is_negated

    def is_neg(self):
        return self.is_negated


def test_a_view_that_is_negated_later_is_taken_by_the_device_and_never_by_its_address(
    bound, device, array, monkeypatch
):
    taken = device.import_array

    def import_array(value, *, writable):
        if isinstance(value, Signed) and value.is_negated:
            raise XpuLaunchException("its numbers are negated when it is read")
        return taken(value, writable=writable)

    monkeypatch.setattr(device, "import_array", import_array)
    kernel = bound(arguments=THREE)
    for _ in range(5):
        w, x, y = (Signed(array()) for _ in range(3))
        kernel(w, x, out=y)
        np.testing.assert_array_equal(y.array, 2 * w.array)
    assert device.imported == 3  # the others are taken by their addresses
    bad = Signed(array(), is_negated=True)
    for arrays in ((bad, x, y), (w, bad, y), (w, x, bad)):
        with pytest.raises(XpuLaunchException, match="negated"):
            kernel(*arrays[:2], out=arrays[2])


def test_real_views_that_are_negated_later_have_no_address_here():
    torch = pytest.importorskip("torch", reason="its lazy views are what is looked at")
    slot = SimpleNamespace(shape=(8,), preparer=None)
    like = torch.empty(8)
    taken = SimpleNamespace(address=like.data_ptr())
    read = readers.reader(slot, like, taken)
    other = torch.empty(8)
    assert read(other) == other.data_ptr()
    assert read(torch._neg_view(other)) == 0


def test_real_guards_tell_tensors_apart_and_keep_none_alive():
    torch = pytest.importorskip("torch", reason="its guards are what is looked at")
    x, y = torch.empty(2, 8), torch.empty(2, 4)
    is_like = readers.guard(x, y)
    if is_like is None:
        pytest.skip("this release of PyTorch has no such guards")
    assert is_like(torch.empty(2, 8), torch.empty(2, 4))
    for other in (
        torch.empty(4, 4),
        torch.empty(2, 8, dtype=torch.int32),
        torch.empty(2, 8, requires_grad=True),
        torch.empty(2, 16)[:, ::2],
        torch.empty(8, 2).t(),
        torch.empty(2, 8, device="meta"),
        torch.empty(2, 8, dtype=torch.complex64).conj().imag,
        torch.nn.Parameter(torch.empty(2, 8), requires_grad=False),
        np.empty((2, 8), np.float32),
    ):
        assert not is_like(other, y)
    gone = weakref.ref(x)
    del x
    assert gone() is None
