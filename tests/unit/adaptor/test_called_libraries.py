"""Members that call a library, and members with several kernels before each launch."""

from __future__ import annotations

import attrs
import pytest

from xpu.adaptor import Adaptor, BatchAdaptor, BuildCache, Built, Called
from xpu.errors import XpuBuildError
from xpu.model import Family, KernelFacts, Member
from xpu.registry import Registry
from xpu.spec import (
    Argument,
    Availability,
    Backend,
    CompiledCode,
    Compiler,
    Design,
    KernelSource,
    Preparation,
)

MEMBERS = (Member("a", {"tile": 1}), Member("b", {"tile": 2}))


class TextCompiler(Compiler):
    """Code is the text; one that says bad fails."""

    identity = "text 1"

    def __init__(self):
        self.made = []

    def native_target(self):
        return "here"

    def fingerprint(self, target):
        return ""

    def compile(self, units, target, *, deadline_s):
        self.made += [unit.kernel for unit in units]
        return [
            XpuBuildError(f"{unit.kernel}: no")
            if "bad" in unit.text
            else CompiledCode(unit.text.encode(), KernelFacts(registers=len(unit.text)))
            for unit in units
        ]


class Libraries(Backend):
    name = "libraries"
    dialect = "c"

    def __init__(self, version="1.2"):
        self.version = version
        self.made = TextCompiler()

    def availability(self):
        return Availability(False)

    def compiler(self):
        return self.made

    def devices(self):
        return ()

    def open(self, index=0):
        raise AssertionError("the compile step opens no device")

    def library(self, routine):
        if self.version is None:
            raise XpuBuildError(f"nothing here has {routine}; install the package blas")
        return f"blas {self.version}"


@attrs.frozen
class Stage(Preparation):
    argument: str
    text: str

    def source(self, dialect):
        return KernelSource(dialect, self.text)

    def sizes(self, raw_shape, constants):
        return raw_shape

    def prepared_bytes(self, raw_shape, constants):
        return 4


class Staged(Design):
    """Its source and what runs before are set by a test."""

    name = "staged"
    parameters = ("tile",)
    problem = ("n",)
    arguments = (
        Argument("w", "float32", "read"),
        Argument("x", "float32", "read"),
        Argument("y", "float32", "write"),
    )

    def __init__(self, source, *stages):
        self._source, self._stages = source, stages

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return self._source

    def staging(self, dialect, member):
        return self._stages

    def shapes(self, problem, constants):
        return {}

    def data(self, problem, constants, rng):
        return {}

    def verify(self, problem, constants, inputs, outputs, rng):
        return ""


CALLED = KernelSource("c", routine="gemm")
KERNEL = KernelSource("c", "kernel")
STAGES = (Stage("w", "widen"), Stage("x", "narrow"))
FAMILY = Family("f", "staged", ("n",), MEMBERS)


@pytest.fixture
def make(tmp_path):
    def adaptor(source=CALLED, stages=STAGES, version="1.2"):
        registry = Registry(designs={"staged": Staged(source, *stages)})
        return Adaptor(Libraries(version), registry, BuildCache(tmp_path))

    return adaptor


def test_a_member_that_calls_a_library_is_what_runs_before_the_call(make):
    one = make()
    both = one.build(FAMILY, MEMBERS, "here")
    built = both["a"]
    assert isinstance(built, Called)
    assert (built.kernel, built.entry, built.library) == ("f.a", "gemm", "blas 1.2")
    assert built.code is None
    assert built.facts == KernelFacts(code_hash=built.code_hash)
    assert [each.code.read_text() for each in built.staging] == ["widen", "narrow"]
    assert [each.kernel for each in built.staging] == ["f.a.stage_w", "f.a.stage_x"]
    assert one.compiler.made == ["f.a.stage_w", "f.a.stage_x"], "members share what runs before"
    other = both["b"]
    assert [each.kernel for each in other.staging] == ["f.b.stage_w", "f.b.stage_x"]
    assert [each.code for each in other.staging] == [each.code for each in built.staging]


def test_what_an_answer_rests_on_is_library_version_and_every_kernel(make):
    def code_hash(**how):
        return make(**how).build(FAMILY, MEMBERS, "here")["a"].code_hash

    others = [
        {"version": "1.3"},
        {"source": KernelSource("c", routine="gemv")},
        {"stages": STAGES[:1]},
        {"stages": STAGES[::-1]},
        {"stages": (STAGES[0], Stage("x", "other"))},
        {"source": KERNEL},
        {"source": KERNEL, "stages": STAGES[:1]},
    ]
    hashes = {code_hash(), *(code_hash(**how) for how in others)}
    assert len(hashes) == 1 + len(others)
    assert code_hash() == code_hash()


def test_a_library_that_is_missing_fails_no_build_and_is_said(make):
    built = make(version=None).build(FAMILY, MEMBERS, "here")["b"]
    assert isinstance(built, Called)
    assert built.library is None
    assert built.missing == "nothing here has gemm; install the package blas"
    assert len(built.staging) == 2


def test_a_kernel_may_have_several_before_it(make):
    built = make(KERNEL).build(FAMILY, MEMBERS, "here")["b"]
    assert isinstance(built, Built)
    assert built.code.read_text() == "kernel"
    assert [each.code.read_text() for each in built.staging] == ["widen", "narrow"]
    assert built.facts.registers == len("kernel")


@pytest.mark.parametrize("source", [CALLED, KERNEL])
def test_a_kernel_before_that_does_not_compile_fails_the_member(make, source):
    stages = (STAGES[0], Stage("x", "bad"))
    for step in (make(source, stages).build, make(source, stages).recall):
        failed = step(FAMILY, MEMBERS, "here")
        assert {str(each) for each in failed.values()} == {"f.a.stage_x: no"}


@pytest.mark.parametrize("source", [CALLED, KERNEL])
def test_a_recall_knows_what_is_built_and_what_is_not(make, source):
    assert make(source).recall(FAMILY, MEMBERS, "here") == {"a": None, "b": None}
    make(source, STAGES[:1]).build(FAMILY, MEMBERS, "here")
    assert make(source).recall(FAMILY, MEMBERS, "here") == {"a": None, "b": None}
    built = make(source).build(FAMILY, MEMBERS, "here")
    later = make(source)
    found = later.recall(FAMILY, MEMBERS, "here")
    assert [found[name].code_hash for name in "ab"] == [built[name].code_hash for name in "ab"]
    assert later.compiler.made == []


@pytest.mark.parametrize("version", ["1.2", None])
def test_a_batch_looks_for_a_library_once_and_makes_the_same(make, tmp_path, version):
    class Counting(Libraries):
        asked = 0

        def library(self, routine):
            self.asked += 1
            return super().library(routine)

    backend = Counting(version)
    registry = Registry(designs={"staged": Staged(CALLED, *STAGES)})
    batch = BatchAdaptor(backend, registry, BuildCache(tmp_path))
    first, second = (batch.build(FAMILY, MEMBERS, target) for target in ("here", "there"))
    assert backend.asked == 1
    assert {name: attrs.evolve(each, staging=()) for name, each in second.items()} == {
        name: attrs.evolve(each, staging=())
        for name, each in make(version=version).build(FAMILY, MEMBERS, "there").items()
    }
    assert first["a"].missing == second["b"].missing
