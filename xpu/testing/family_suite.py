"""The conformance suite of a family: what a design says of itself, and what its members do."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import pytest

from xpu.adaptor.units import macros
from xpu.model import Problem
from xpu.registry import staging_of
from xpu.spec import KernelSource, Launch, host_dtype
from xpu.spec.elements import BFLOAT16
from xpu.testing.family_cases import Case, Cases
from xpu.testing.member_tests import MemberTests
from xpu.testing.surroundings import Suite, own_surroundings, skip_for

_NOWHERE: Final = Path(os.devnull)
_LOADS: Final = "test_the_plugin_loads_and_families_name_its_designs"
_PROBLEMS: Final = "test_there_are_problems_to_try"


class FamilyFixtures(Suite):
    """Fixtures, and what a family's test module sets; see `FamilySuite`."""

    plugin: ClassVar[object]
    config: ClassVar[Sequence[Path]] = ()
    families: ClassVar[Sequence[str] | None] = None
    problems: ClassVar[Mapping[str, Sequence[Mapping[str, int]]]] = {}
    _collected: ClassVar[tuple[list[str], list[tuple[str, str]], str]]

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """Make a test for each family, and for each backend that takes its dialect."""
        wanted = {"family_name", "backend_name"} & set(metafunc.fixturenames)
        if not wanted or metafunc.cls is None:
            return
        suite: type[FamilyFixtures] = metafunc.cls
        names, pairs, none = suite.collected()
        skipped = pytest.mark.skip(reason=none)
        if "backend_name" in wanted:
            metafunc.parametrize(
                ("family_name", "backend_name"),
                pairs or [pytest.param("none", "none", marks=skipped)],
            )
        else:
            metafunc.parametrize("family_name", names or [pytest.param("none", marks=skipped)])

    @classmethod
    def collected(cls) -> tuple[list[str], list[tuple[str, str]], str]:
        """Name the families, each with every backend that takes its dialect, and why none does.

        It is read once.
        """
        if "_collected" not in cls.__dict__:
            # Reported by the test that loads the plugin; a collection that fails tells less.
            cls._collected = ([], [], f"the plugin does not load; see {_LOADS}")
            with contextlib.suppress(Exception), own_surroundings(_NOWHERE, cls.environment):
                cases = cls.made_cases()
                names = [family.name for family in cases.families(cls.families)]
                none = f"families: none names a design of the plugin; see {_LOADS}"
                if names:
                    brought = sorted({one for each in cases.dialects.values() for one in each})
                    none = f"backends: none that is installed takes {', '.join(brought)}"
                cls._collected = (names, cases.pairs(cls.families), none)
        return cls._collected

    @classmethod
    def made_cases(cls) -> Cases:
        """Load the plugin and all configuration."""
        return Cases.of(cls.plugin, tuple(cls.config))

    @pytest.fixture(scope="class")
    @classmethod
    def cases(cls) -> Cases:
        """Return the plugin's families beside the installed backends."""
        try:
            return cls.made_cases()
        except Exception as error:
            skip_for(error, "the plugin does not load", _LOADS)

    @pytest.fixture
    def case(self, cases: Cases, family_name: str) -> Case:
        """Return one family."""
        try:
            return self.made_case(cases, family_name)
        except Exception as error:
            skip_for(error, "problems to try", _PROBLEMS)

    def made_case(self, cases: Cases, family_name: str) -> Case:
        """Return one family with problems to try it on."""
        return cases.case(family_name, self.problems.get(family_name, ()))

    @pytest.fixture
    def rng(self) -> np.random.Generator:
        """Return fresh random numbers for each test."""
        return np.random.default_rng()


class DesignTests(FamilyFixtures):
    """The design by itself: no compiler and no device is asked."""

    def test_the_plugin_loads_and_families_name_its_designs(self) -> None:
        cases = self.made_cases()
        assert cases.dialects, "the plugin brings no design and no kernel source"
        named = {family.design for family in cases.families(None)}
        unused = set(cases.dialects) - named
        assert not unused, (
            f"no family names design {', '.join(sorted(unused))}: declare one in a TOML file that "
            "the plugin ships (hook xpu_config), or that the suite names (config = [Path(…)])"
        )
        missing = set(self.families or ()) - {family.name for family in cases.families(None)}
        assert not missing, f"families = … names {', '.join(missing)}, which nobody declares"

    def test_there_are_problems_to_try(self, cases: Cases, family_name: str) -> None:
        assert self.made_case(cases, family_name).problems

    def test_the_design_says_what_it_is(self, case: Case) -> None:
        design = case.design
        for kind, names in (
            ("parameters", design.parameters),
            ("problem", design.problem),
            ("arguments", [argument.name for argument in design.arguments]),
        ):
            assert len(set(names)) == len(names), f"{kind}: a name stands there twice"
            assert all(name.isidentifier() for name in names), f"{kind}: {names}"
        for argument in design.arguments:
            assert argument.dtype in (host_dtype(argument.dtype).name, BFLOAT16), argument
            assert argument.access in ("read", "write", "update"), argument
        assert design.arguments[-1].access != "read", "the last argument is the result"
        if design.preparation is not None:
            prepared = [it for it in design.arguments if it.name == design.preparation.argument]
            assert [it.access for it in prepared] == ["read"], "what is prepared is only read"
        both = set(macros(case.family.constants)) & set(macros(dict.fromkeys(design.parameters, 1)))
        assert not both, f"a constant and a parameter become the same macro: {both}"

    def test_no_two_members_are_the_same(self, case: Case) -> None:
        for dialect in case.dialects:
            seen: dict[tuple[tuple[str, int], ...], str] = {}
            for member in case.family.for_dialect(dialect):
                key = tuple(sorted(member.parameters.items()))
                assert key not in seen, f"{member.name} and {seen[key]} are one, {dict(key)}"
                seen[key] = member.name

    def test_there_is_a_source_and_a_launch_in_every_dialect(
        self, case: Case, cases: Cases
    ) -> None:
        design = case.design
        for dialect in set(case.dialects) & set(design.dialects()):
            sources = [design.source(dialect)]
            if design.preparation is not None:
                sources.append(design.preparation.source(dialect))
            for source in sources:
                assert isinstance(source, KernelSource)
                assert source.dialect == dialect
                assert source.text.strip() or source.routine
        for dialect in case.dialects:
            for member in case.family.for_dialect(dialect):
                for problem in case.problems:
                    launch = cases.registry.launch_for(
                        case.family, dialect, member.parameters, problem
                    )
                    assert isinstance(launch, Launch)
                    assert all(size >= 1 for size in launch.grid), (member.name, launch)
                    assert all(size >= 1 for size in launch.block or (1,)), (member.name, launch)

    def test_every_argument_has_a_shape(self, case: Case) -> None:
        for problem in case.problems:
            shapes = case.design.shapes(problem, case.family.constants)
            assert set(shapes) == {argument.name for argument in case.design.arguments}
            for name, shape in shapes.items():
                assert isinstance(shape, tuple), (name, shape)
                assert all(type(size) is int and size >= 0 for size in shape), (name, shape)

    def test_data_have_the_shapes_and_are_fresh(self, case: Case) -> None:
        constants = case.family.constants
        given = {
            it.name: host_dtype(it.dtype).name
            for it in case.design.arguments
            if it.access != "write"
        }
        for problem in case.problems:
            shapes = case.design.shapes(problem, constants)
            first, again, other = (
                case.design.data(problem, constants, np.random.default_rng(seed))
                for seed in (1, 1, 2)
            )
            assert {name: array.dtype.name for name, array in first.items()} == given
            for name, array in first.items():
                assert array.shape == tuple(shapes[name]), name
                assert array.flags.c_contiguous, f"{name} is not contiguous"
                same = array.tobytes() == again[name].tobytes()
                assert same, f"{name}: take every random number from the generator given"
            assert any(first[name].tobytes() != other[name].tobytes() for name in first), (
                "data are the same for every generator"
            )

    def test_problems_and_constants_are_judged_by_a_text(self, case: Case) -> None:
        design, constants = case.design, case.family.constants
        for size in (0, 1, 3, 255, 2**20 + 1):
            problem = Problem(**dict.fromkeys(case.family.problem, size))
            assert isinstance(design.check_problem(problem, constants), str)
        assert design.check_constants(constants) == ""
        for wrong in ({}, {"no_such_constant": 1}, dict.fromkeys(constants, "no_such_value")):
            assert isinstance(design.check_constants(wrong), str)

    def test_its_figures_are_whole_numbers(self, case: Case) -> None:
        for problem in case.problems:
            nbytes = case.design.bytes_touched(problem, case.family.constants)
            assert type(nbytes) is int, nbytes
            assert nbytes > 0
            assert type(case.design.operations(problem)) is int
            assert case.design.operations(problem) >= 0

    def test_the_preparation_knows_its_sizes(self, case: Case) -> None:
        preparation = case.design.preparation
        if preparation is None:
            pytest.skip("preparation: the design has none")
        for problem in case.problems:
            raw = tuple(case.design.shapes(problem, case.family.constants)[preparation.argument])
            sizes = preparation.sizes(raw, case.family.constants)
            assert all(type(size) is int and size >= 0 for size in sizes), sizes
            nbytes = preparation.prepared_bytes(raw, case.family.constants)
            assert type(nbytes) is int, nbytes
            assert nbytes > 0

    def test_what_runs_before_a_launch_knows_its_sizes(self, case: Case, cases: Cases) -> None:
        read = [argument.name for argument in case.design.arguments if argument.access == "read"]
        staged = 0
        for dialect, member, problem in itertools.product(
            case.dialects, case.family.members, case.problems
        ):
            if not member.speaks(dialect):
                continue
            shapes = case.design.shapes(problem, case.family.constants)
            before = staging_of(case.design, dialect, member.parameters)
            names = [each.argument for each in before]
            assert len(set(names)) == len(names), f"{member.name}: staged twice: {names}"
            assert set(names) <= set(read), f"{member.name}: what is staged is only read: {names}"
            staged += len(names)
            for each in before:
                raw = tuple(shapes[each.argument])
                sizes = each.sizes(raw, case.family.constants)
                assert all(type(size) is int and size >= 0 for size in sizes), sizes
                assert each.prepared_bytes(raw, case.family.constants) > 0
                launch = each.launch(dialect, raw, case.family.constants)
                assert all(size >= 1 for size in launch.grid), (member.name, launch)
                assert each.source(dialect).text.strip()
        if not staged:
            pytest.skip("staging: nothing runs before the launches of any member")


class FamilySuite(DesignTests, MemberTests):
    """Everything that the core expects of a family.

    Used in one line: ``class TestMine(FamilySuite): plugin = my_plugin_module``. Members run on
    every installed backend that is available and takes one of the design's dialects; with none,
    those tests are skipped.

    Attributes
    ----------
    plugin
        The plugin module: its designs, and the kernel sources that it adds to others' designs.
    config
        TOML files beside those that the plugin ships.
    families
        The families to look at; None for all that name its designs.
    problems
        Problems to run, by family; small ones are found where a family is not named.
    promises_nan
        Whether a row of data that is not finite leaves the other rows of the result as they
        are, and is judged right by `verify`.
    environment
        Variables to be set while its tests run.
    """
