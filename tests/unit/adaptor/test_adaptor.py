"""The compile step over a compiler that fails on request."""

from __future__ import annotations

import hashlib

import attrs
import pytest

from xpu.adaptor import Adaptor, BatchAdaptor, BuildCache
from xpu.errors import XpuBuildError, XpuConfigError
from xpu.model import Family, KernelFacts, LaunchSite, Member
from xpu.registry import Registry
from xpu.spec import (
    Argument,
    Availability,
    Backend,
    CompiledCode,
    Compiler,
    Design,
    KernelSource,
    Launch,
    Preparation,
    occupancy,
    wave,
)


class FakeCompiler(Compiler):
    """Code is the unit's text and macros; units with a macro BAD fail."""

    identity = "fake 1"

    def __init__(self):
        self.batches = []
        self.is_mended = False
        self.says = "no"

    def native_target(self):
        return "here"

    def fingerprint(self, target):
        return "-O"

    def compile(self, units, target, *, deadline_s):
        self.batches.append([unit.kernel for unit in units])
        self.deadline_s = deadline_s
        return [
            XpuBuildError(f"{unit.kernel}: {self.says}")
            if "XPU_BAD" in unit.defines and not self.is_mended
            else CompiledCode(f"{unit.text} {unit.defines}".encode(), KernelFacts(stack_bytes=8))
            for unit in units
        ]


class FakeBackend(Backend):
    name = "fake"
    dialect = "c"

    def __init__(self):
        self.made = FakeCompiler()

    def availability(self):
        return Availability(False, "a compiler needs no device")

    def compiler(self):
        return self.made

    def devices(self):
        return ()

    def open(self, index=0):
        raise AssertionError("the compile step opens no device")


class Repack(Preparation):
    argument = "x"

    def source(self, dialect):
        return KernelSource(dialect, "repack")

    def sizes(self, raw_shape, constants):
        return raw_shape

    def prepared_bytes(self, raw_shape, constants):
        return 4 * raw_shape[0]


class Plain(Design):
    name = "plain"
    parameters = ("tile", "bad")
    problem = ("n",)
    arguments = (Argument("x", "float32", "read"), Argument("y", "float32", "write"))

    def dialects(self):
        return ("c",)

    def source(self, dialect):
        return KernelSource(dialect, "text")

    def shapes(self, problem, constants):
        return {"x": (problem.n,), "y": (problem.n,)}

    def data(self, problem, constants, rng):
        return {}

    def verify(self, problem, constants, inputs, outputs, rng):
        return ""


class Prepared(Plain):
    name = "prepared"
    preparation = Repack()


class Foreign(Plain):
    name = "foreign"

    def dialects(self):
        return ("simt",)


def member(name, **parameters):
    return Member(name, parameters)


FAMILY = Family("f", "plain", ("n",), (member("a", tile=1), member("b", bad=1), member("c")))


@pytest.fixture
def make(tmp_path):
    def adaptor(backend=None, **added):
        designs = {design.name: design for design in (Plain(), Prepared(), Foreign())}
        registry = Registry(designs=designs, **added)
        return Adaptor(backend or FakeBackend(), registry, BuildCache(tmp_path))

    return adaptor


def test_a_member_that_fails_stands_in_its_place_and_the_others_are_built(make):
    built = make().build(FAMILY, FAMILY.members, "here")
    assert list(built) == ["a", "b", "c"]
    assert isinstance(built["b"], XpuBuildError)
    for name in "ac":
        one = built[name]
        assert hashlib.sha256(one.code.read_bytes()).hexdigest() == one.manifest.code_hash
        assert (one.manifest.kernel, one.manifest.target) == (f"f.{name}", "here")
        assert one.facts == KernelFacts(stack_bytes=8, code_hash=one.manifest.code_hash)
        assert not one.was_cached
    assert built["a"].manifest.code_hash != built["c"].manifest.code_hash


def test_nothing_is_compiled_twice(make):
    one = make()
    first = one.build(FAMILY, FAMILY.members, "here")
    again = one.build(FAMILY, FAMILY.members, "here")
    assert one.compiler.batches == [["f.a", "f.b", "f.c"]]
    assert again["a"] == attrs.evolve(first["a"], was_cached=True)
    later = make()
    assert later.build(FAMILY, FAMILY.members, "here")["a"] == again["a"]
    assert later.compiler.batches == [["f.b"]]  # a failure is tried again by the next process


@pytest.mark.parametrize(
    ("said", "parameters", "hint"),
    [
        ("error: 'XPU_TILE' undeclared", {}, 'member b sets no "tile": '),
        ("error: 'XPU_TILE' undeclared", {"tile": 2}, ""),
        (
            "use of undeclared identifier 'XPU_LANES'; XPU_TILE",
            {},
            'member b sets no "lanes", "tile": ',
        ),
        ("error: XPU_TILES undeclared", {}, ""),
        ("error: expected ';'", {}, ""),
    ],
)
def test_a_parameter_that_a_failed_member_does_not_set_is_named(make, said, parameters, hint):
    backend = FakeBackend()
    backend.made.says = said
    members = (member("a", lanes=4), member("b", bad=1, **parameters))
    family = attrs.evolve(FAMILY, members=members)
    for _ in range(2):  # compiled, and as it is known from then on
        text = str(make(backend).build(family, members, "here")["b"])
        assert text == f"{hint}f.b: {said}"
        assert str(make(backend).recall(family, members, "here")["b"]) == text
    assert backend.made.batches == [["f.a", "f.b"], ["f.b"]]


def test_another_target_is_another_build(make):
    one = make()
    one.build(FAMILY, FAMILY.members[:1], "here")
    one.build(FAMILY, FAMILY.members[:1], "there")
    assert one.compiler.batches == [["f.a"], ["f.a"]]


def test_a_recall_compiles_nothing_and_knows_what_failed(make):
    assert make().recall(FAMILY, FAMILY.members, "here") == {"a": None, "b": None, "c": None}
    built = make().build(FAMILY, FAMILY.members, "here")
    later = make()
    found = later.recall(FAMILY, FAMILY.members, "here")
    assert found["a"].manifest == built["a"].manifest
    assert str(found["b"]) == "f.b: no"
    assert later.compiler.batches == []


def test_what_compiles_at_last_is_no_failure_any_more(make):
    make().build(FAMILY, FAMILY.members, "here")
    mended = FakeBackend()
    mended.made.is_mended = True
    make(mended).build(FAMILY, FAMILY.members, "here")
    assert make().recall(FAMILY, FAMILY.members, "here")["b"].was_cached


def test_families_that_share_code_each_find_it_under_their_own_name(make):
    one = make()
    other = attrs.evolve(FAMILY, name="g")
    first = one.build(FAMILY, FAMILY.members[:1], "here")["a"]
    second = one.build(other, FAMILY.members[:1], "here")["a"]
    assert (first.manifest.kernel, second.manifest.kernel) == ("f.a", "g.a")
    assert second.was_cached
    assert second.code == first.code


def test_a_preparation_is_built_once_for_the_designs_that_share_it(make):
    one = make()
    assert one.preparation(FAMILY, "here") is None
    for name in ("f", "g"):
        family = attrs.evolve(FAMILY, name=name, design="prepared")
        assert one.preparation(family, "here").manifest.kernel == f"{name}.prepare"
    assert one.compiler.batches == [["f.prepare"]]


def test_an_added_dialect_prepares_its_own_way_or_not_at_all(make):
    class Stranger(FakeBackend):
        dialect = "strange"

    def added(preparation):
        source = KernelSource("strange", "kernel", design="prepared", preparation=preparation)
        return {("prepared", "strange"): source}

    family = attrs.evolve(FAMILY, design="prepared")
    own = KernelSource("strange", "own repack")
    one = make(Stranger(), kernel_sources=added(own))
    built = one.preparation(family, "here")
    assert b"own repack" in built.code.read_bytes()
    assert make(Stranger(), kernel_sources=added(None)).preparation(family, "here") is None


def test_a_preparation_that_does_not_compile_is_an_error(make):
    family = attrs.evolve(FAMILY, design="prepared", constants={"bad": 1})
    with pytest.raises(XpuBuildError, match=r"f\.prepare: no"):
        make().preparation(family, "here")


def test_a_design_without_a_source_in_the_dialect_is_an_error(make):
    family = attrs.evolve(FAMILY, design="foreign")
    for step in (make().build, make().recall):
        with pytest.raises(XpuBuildError, match=r"'foreign' has no source in dialect 'c'.*simt"):
            step(family, family.members, "here")


def test_a_build_that_vanished_is_made_again(make):
    one = make()
    first = one.build(FAMILY, FAMILY.members[:1], "here")["a"]
    first.code.unlink()
    again = one.build(FAMILY, FAMILY.members[:1], "here")["a"]
    assert again.code.read_bytes()
    assert not again.was_cached


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, 60.0), ("", 60.0), ("2.5", 2.5), ("90", 90.0)]
)
def test_the_environment_says_how_long_a_compiler_may_take(make, monkeypatch, text, seconds):
    if text is not None:
        monkeypatch.setenv("XPU_COMPILE_DEADLINE_S", text)
    backend = FakeBackend()
    make(backend).build(FAMILY, FAMILY.members, "here")
    assert backend.made.deadline_s == seconds


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "ten", "10 s"])
def test_a_deadline_that_is_none_is_refused_by_name(make, monkeypatch, text):
    monkeypatch.setenv("XPU_COMPILE_DEADLINE_S", text)
    with pytest.raises(XpuConfigError, match=f"XPU_COMPILE_DEADLINE_S='{text}': allowed are sec"):
        make()


def test_a_batch_makes_recipes_once_and_builds_the_same(make, tmp_path):
    backend = FakeBackend()
    designs = {design.name: design for design in (Plain(), Prepared())}
    batch = BatchAdaptor(backend, Registry(designs=designs), BuildCache(tmp_path))
    family = attrs.evolve(FAMILY, design="prepared")
    recipes = [batch.recipes(family, family.members, target) for target in ("here", "there")]
    assert all(recipes[0][name] is recipes[1][name] for name in "abc")
    built = batch.build(family, family.members, "here")
    prepared = [batch.preparation(family, "here") for _ in range(2)]
    assert prepared[1] == attrs.evolve(prepared[0], was_cached=True)
    alone = make().build(family, family.members, "here")
    assert alone["a"] == attrs.evolve(built["a"], was_cached=True)
    assert [unit for batch in backend.made.batches for unit in batch] == [
        *("f.a", "f.b", "f.c", "f.prepare")
    ]


class Waves(FakeBackend):
    dialect = "simt"

    def wave_width(self, target):
        return {"narrow": 32, "wide": 64}.get(target)


@wave(width=32)
@occupancy(max_waves=4)
class Narrow(Foreign):
    def launch(self, dialect, member, problem):
        return Launch(block=(problem.n, 1, 1))


def test_a_member_is_refused_for_a_target_whose_waves_it_does_not_fit(tmp_path):
    registry = Registry(designs={"foreign": Narrow()})
    one = Adaptor(Waves(), registry, BuildCache(tmp_path))
    family = attrs.evolve(FAMILY, design="foreign", members=FAMILY.members[:1])
    built = one.build(family, family.members, "narrow")["a"]
    assert (built.manifest.max_threads, one.compiler.batches) == (128, [["f.a"]])
    refused = one.build(family, family.members, "wide")["a"]
    assert isinstance(refused, XpuBuildError)
    assert "f.a: its indexing assumes waves of 32 lanes" in str(refused)
    assert str(one.recall(family, family.members, "wide")["a"]) == str(refused)
    assert one.compiler.batches == [["f.a"]]


def test_a_manifest_says_what_was_pinned_and_from_where(tmp_path):
    registry = Registry(designs={"foreign": Narrow()})
    family = attrs.evolve(FAMILY, design="foreign", members=FAMILY.members[:1])
    for was_cached in (False, True):
        one = Adaptor(Waves(), registry, BuildCache(tmp_path))
        built = one.build(family, family.members, "narrow")["a"]
        assert built.was_cached is was_cached
        host, declared = built.manifest.launch_sites
        assert host.where.startswith("tests/unit/adaptor/test_adaptor.py:")
        assert (host.threads, declared) == (None, LaunchSite("declared occupancy", 128))
    assert built.refuses(Launch(block=(64, 2, 1))) == built.refuses(Launch()) == ""
    said = built.refuses(Launch(block=(64, 3, 1)))
    assert "f.a: a launch asks for 192 threads a block" in said
    assert "compiled for at most 128" in said
    assert "declared occupancy" in said
