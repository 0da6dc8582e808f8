from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from copy_device import ARGUMENTS

from xpu.errors import XpuConfigError, XpuLaunchException
from xpu.model import ChoiceResult, Family, Member, Problem
from xpu.orchestrator import Op
from xpu.orchestrator.plans import Plans
from xpu.spec import Argument, Design, KernelSource


class Product(Design):
    """y (m, n) = w (n, 2 k) times x (m, k)."""

    name = "product"
    parameters = ()
    problem = ("m", "n", "k")
    arguments = (
        Argument("w", "uint8", "read"),
        Argument("x", "float32", "read"),
        Argument("y", "float32", "write"),
    )

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, "")

    def shapes(self, problem, constants):
        m, n, k = problem.m, problem.n, problem.k
        return {"w": (n, 2 * k), "x": (m, k), "y": (m, n)}

    def data(self, problem, constants, rng):
        return {}

    def verify(self, problem, constants, inputs, outputs, rng):
        return ""


FAMILY = Family("product", "product", ("m", "n", "k"), (Member("a"),))
SOME = {"m": 3, "n": 5, "k": 7}


class Kernel:
    def __init__(self, size, source="default", is_final=True):
        self.size = size
        self.is_final = is_final
        self.result = ChoiceResult("product", "", "a", source)
        self.calls = self
        self.plans = Plans()
        self.given = []

    def call(self, *inputs, out, stream=None):
        values = (*inputs, out)
        self.first((*map(id, values), stream), values, stream)
        return out

    def first(self, key, values, stream):
        self.given.append((values, stream))


class Binds:
    """What an op binds through; it counts."""

    def __init__(self, **how):
        self.how = how
        self.asked = []

    def __call__(self, name, size):
        self.asked.append((name, size))
        return Kernel(size, **self.how)


def arrays(**sizes):
    shapes = Product().shapes(Problem(**{**SOME, **sizes}), {})
    w, x, y = (np.zeros(shapes[name], np.float32) for name in "wxy")
    return (w, x), y


def op(binds, open_size="m", design=None):
    fixed = {name: size for name, size in SOME.items() if name != open_size}
    return Op(FAMILY, design or Product(), fixed, binds)


@pytest.mark.parametrize("name", ["m", "n", "k"])
def test_any_size_that_is_an_axis_of_an_input_can_be_open(name):
    binds = Binds()
    one = op(binds, name)
    for size in (4, 9, 4):
        inputs, y = arrays(**{name: size})
        assert one(*inputs, out=y, stream="s") is y
    assert binds.asked == [(name, 4), (name, 9)]


@pytest.mark.parametrize(
    "serves", [lambda m: 1 <= m <= 16, lambda m: m > 500, lambda m: m % 256 == 0]
)
def test_a_size_can_be_open_where_a_design_serves_some_of_them_alone(serves):
    class Choosy(Product):
        def check_problem(self, problem, constants):
            return "" if serves(problem.m) else "not this m"

    binds = Binds()
    inputs, y = arrays(m=16)
    op(binds, design=Choosy())(*inputs, out=y)
    assert binds.asked == [("m", 16)]


def test_a_result_that_comes_first_moves_no_input():
    class Turned(Product):
        arguments = (Product.arguments[2], *Product.arguments[:2])

    binds = Binds()
    inputs, y = arrays(m=6)
    op(binds, design=Turned())(*inputs, out=y)
    assert binds.asked == [("m", 6)]


def test_an_argument_that_is_updated_is_an_input():
    class Updating(Product):
        arguments = (Argument("w", "uint8", "update"), *Product.arguments[1:])

    binds = Binds()
    inputs, y = arrays(n=6)
    op(binds, "n", Updating())(*inputs, out=y)
    assert binds.asked == [("n", 6)]


def test_a_size_that_is_no_axis_cannot_be_open():
    class Hidden(Product):
        def shapes(self, problem, constants):
            return {**super().shapes(problem, constants), "x": (problem.m, 2 * problem.k)}

    with pytest.raises(XpuConfigError, match=r"'k' is no axis of an input; bind\(\)"):
        op(Binds(), "k", Hidden())


def test_a_size_that_must_be_a_multiple_can_be_open():
    class Blocks(Product):
        def check_problem(self, problem, constants):
            return "" if problem.k % 256 == 0 and problem.k else f"k = {problem.k} is no multiple"

        def shapes(self, problem, constants):
            assert not self.check_problem(problem, constants)
            return super().shapes(problem, constants)

    binds = Binds()
    inputs, y = arrays(k=512)
    op(binds, "k", Blocks())(*inputs, out=y)
    assert binds.asked == [("k", 512)]
    with pytest.raises(XpuConfigError, match="'product': k = 7 is no multiple"):
        op(binds, "m", Blocks())


@pytest.mark.parametrize(
    "fixed", [{}, {"m": 1}, SOME, {"m": 1, "j": 2}, {"m": 1, "n": 2, "k": 3, "j": 4}]
)
def test_all_sizes_but_one_are_given(fixed):
    with pytest.raises(XpuConfigError, match="all of m, n, k but one; given: "):
        Op(FAMILY, Product(), fixed, Binds())


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((), "nothing"),
        ((1,), "nothing"),
        ((1, [1, 2]), "list without a shape"),
        ((1, None), "NoneType without a shape"),
        ((1, np.float32(3)), "float32 of shape ()"),
        ((1, np.array(3)), "ndarray of shape ()"),
    ],
)
def test_an_array_without_that_axis_is_refused_by_name(inputs, words):
    binds = Binds()
    with pytest.raises(XpuLaunchException) as error:
        op(binds)(*inputs, out=None)
    text = str(error.value)
    assert all(word in text for word in ["product", "'x'", "'m'", "axis 0", words])
    assert binds.asked == []


def test_the_open_size_is_looked_at_at_every_call_whatever_the_objects():
    binds = Binds()
    one = op(binds)
    (w, x), y = arrays(m=6)
    for _ in range(5):
        one(w, x, out=y)
    x.resize((2, x.shape[1]), refcheck=False)
    one(w, x, out=y)
    x.resize((6, x.shape[1]), refcheck=False)
    one(w, x, out=y)
    assert binds.asked == [("m", 6), ("m", 2)]


def test_a_kernel_that_fails_is_not_taken_for_a_missing_size():
    class Failing(Kernel):
        def first(self, key, values, stream):
            raise KeyError("from the launch")

    one = Op(FAMILY, Product(), {"n": 5, "k": 7}, lambda _name, size: Failing(size))
    inputs, y = arrays()
    for _ in range(2):
        with pytest.raises(KeyError, match="from the launch"):
            one(*inputs, out=y)


def test_a_stand_in_serves_a_while_before_it_is_asked_for_again(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("xpu.orchestrator.op.time.monotonic", lambda: now[0])
    binds = Binds(is_final=False)
    one = op(binds)
    inputs, y = arrays()
    for _ in range(50):
        one(*inputs, out=y)
    assert len(binds.asked) == 1
    now[0] += 1.0
    one(*inputs, out=y)
    assert len(binds.asked) == 2
    assert one.kernel(3).size == 3  # who asks by size is answered anew
    assert len(binds.asked) == 3
    binds.how = {}
    now[0] += 1.0
    for _ in range(50):
        one(*inputs, out=y)
    assert len(binds.asked) == 4


def test_what_was_timed_beside_others_work_serves_the_op_that_asked():
    # Nobody keeps it; but an op that asked at every call would time at every call.
    binds = Binds(is_final=False, source="timed")
    one = op(binds)
    inputs, y = arrays()
    one(*inputs, out=y)
    one(*inputs, out=y)
    assert len(binds.asked) == 1
    one.forget()
    one(*inputs, out=y)
    assert len(binds.asked) == 2


def test_a_bind_under_way_while_answers_change_is_not_kept():
    started, may_end = threading.Event(), threading.Event()

    class Slow(Binds):
        def __call__(self, name, size):
            kernel = super().__call__(name, size)
            started.set()
            may_end.wait(5)
            return kernel

    binds = Slow()
    one = op(binds)
    inputs, y = arrays()
    thread = threading.Thread(target=one, args=inputs, kwargs={"out": y})
    thread.start()
    started.wait(5)
    one.forget()
    may_end.set()
    thread.join()
    one(*inputs, out=y)
    assert len(binds.asked) == 2


def test_the_design_of_the_other_tests_has_one_result():
    assert [argument.access for argument in ARGUMENTS] == ["read", "write"]


class Remembering(Kernel):
    """It remembers whatever it is given, and notes which call was which."""

    def first(self, key, values, stream):
        self.given.append("first")
        self.plans.remember(key, values, (), lambda: lambda: self.given.append("again"))


class Kernels(dict):
    """What an op binds through; a kernel for each size."""

    def __call__(self, _name, size):
        return self.setdefault(size, Remembering(size))


def test_arrays_that_come_again_are_launched_on_as_remembered():
    kernels = Kernels()
    one = op(kernels)
    (w, x), y = arrays(m=4)
    for _ in range(4):
        assert one(w, x, out=y) is y
    assert kernels[4].given == ["first", *["again"] * 3]
    one.forget()
    kernels.clear()
    one(w, x, out=y)
    assert kernels[4].given == ["first"]


class Counted:
    """A tensor that tells its number of elements."""

    def __init__(self, *shape):
        self.shape = shape

    def numel(self):
        return math.prod(self.shape)


@pytest.mark.parametrize(
    "pair",
    [
        (Counted(2, 6), Counted(3, 4)),
        (np.zeros((2, 6)), np.zeros((3, 4))),
        (Counted(2, 6), np.zeros((3, 4))),
        (SimpleNamespace(shape=(2, 6)), Counted(3, 4)),
    ],
    ids=["tensors", "numpy", "both", "one that does not tell"],
)
def test_arrays_of_as_many_elements_are_served_by_the_kernels_of_their_sizes(pair):
    kernels, w, y = Kernels(), np.zeros(1), np.zeros(1)
    one = op(kernels)
    for _ in range(5):
        for x in pair:
            one(w, x, out=y)
            assert kernels[x.shape[0]].given.pop() in ("first", "again")
            assert not any(kernel.given for kernel in kernels.values())
