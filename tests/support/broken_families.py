"""Family plugins that are each wrong in one way, and the tests of the kit that must find it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xpu.spec import Argument, Design, KernelSource, Launch, Preparation, hookimpl
from xpu.testing import NullBackend

DIALECT = "python"


def run(launch):
    """y (m, n) = x (m, n) * w (n) + 1; the parameter `mode` says what is wrong."""
    if launch.kernel.endswith(".prepare"):
        launch.buffers[1][...] = launch.buffers[0]
        return
    w, x, *more, y = launch.buffers
    m, n = launch.sizes
    right = x.reshape(m, n) * w + np.float32(1)
    match launch.defines["XPU_MODE"]:
        case "1":
            right[-1, -1] += 1
        case "2":
            right[-1, -1:].view(np.uint32)[...] = 0xFFFFFFFF
        case "3":
            right += 0 * right.sum()
        case "4":
            raise RuntimeError("no")
        case "6" if launch.launch.grid[2] > 1:  # its parts are added to what is there
            right = y.reshape(m, n) + right
        case "5" if "update" in launch.kernel:
            right = y.reshape(m, n)
    if "update" in launch.kernel:
        right = y.reshape(m, n) + right
    for result in (*more, y):
        result[...] = right.reshape(-1)


class Host(NullBackend):
    """The backend that every one of them brings."""

    def __init__(self):
        super().__init__(DIALECT, run, name="family_host")


class AsItIs(Preparation):
    argument = "w"

    def source(self, dialect):
        return KernelSource(dialect, "prepare")

    def sizes(self, raw_shape, constants):
        return raw_shape

    def prepared_bytes(self, raw_shape, constants):
        return 4 * raw_shape[0]


def split_launch(clears):
    def launch(self, dialect, member, problem):
        parts = member.get("splits", 1)
        return Launch(grid=(1, 1, parts), clears_result=clears and parts > 1)

    return launch


class Right(Design):
    name = "scaled"
    parameters = ("mode", "step")
    problem = ("m", "n")
    preparation = AsItIs()
    launch = split_launch(clears=True)
    arguments = (
        Argument("w", "float32", "read"),
        Argument("x", "float32", "read"),
        Argument("y", "float32", "write"),
    )

    def dialects(self):
        return (DIALECT,)

    def source(self, dialect):
        return KernelSource(dialect, "see run()")

    def shapes(self, problem, constants):
        shape = (problem.m, problem.n)
        return {"w": (problem.n,), "x": shape, "y": shape}

    def data(self, problem, constants, rng):
        names = [it.name for it in self.arguments if it.access != "write"]
        shapes = self.shapes(problem, constants)
        return {name: rng.standard_normal(shapes[name], dtype=np.float32) for name in names}

    def right(self, inputs):
        return inputs["x"] * inputs["w"] + np.float32(1)

    def verify(self, problem, constants, inputs, outputs, rng):
        is_right = np.array_equal(outputs["y"], self.right(inputs), equal_nan=True)
        return "" if is_right else "y is not x * w + 1"


class Base:
    """A right one: its design and the text of its families are given."""

    design = Right
    family = "scaled"
    keys = ""
    members = ("mode = 6",)

    @hookimpl
    def xpu_backends(self):
        return [Host()]

    @hookimpl
    def xpu_designs(self):
        return [self.design()]

    @hookimpl
    def xpu_config(self):
        # Beside the test that is running: where it runs is its own directory.
        path = Path.cwd() / f"{type(self).__name__}.toml"
        lines = [
            f"[families.{self.family}]",
            'design = "scaled"',
            'problem = ["m", "n"]',
            self.keys,
        ]
        for at, member in enumerate(self.members):
            lines += [f"[[families.{self.family}.members]]", f'name = "m{at}"', member]
        path.write_text("\n".join([*lines, ""]))
        return [path]


def plugin(name, **attributes):
    return type(name, (Base,), attributes)


def with_design(name, **attributes):
    return plugin(name, design=type(name, (Right,), attributes))


def accepts(*_):
    return ""


def refuses(*_):
    return "no"


def blind_to_nan(self, problem, constants, inputs, outputs, rng):
    error = np.abs(outputs["y"] - self.right(inputs)).max(initial=0)
    return f"error {error}" if error > 1e-3 else ""


def first_only(self, problem, constants, inputs, outputs, rng):
    at = rng.integers(0, outputs["y"].size)
    given, right = outputs["y"].reshape(-1)[at], self.right(inputs).reshape(-1)[at]
    return "" if given == right or (np.isnan(given) and np.isnan(right)) else "wrong"


def spoils(self, problem, constants, inputs, outputs, rng):
    fault = Right.verify(self, problem, constants, inputs, outputs, rng)
    inputs["x"][...] = 0
    return fault


def says_yes(self, problem, constants, inputs, outputs, rng):
    return Right.verify(self, problem, constants, inputs, outputs, rng) == ""


UPDATED = (*Right.arguments[:2], Argument("y", "float32", "update"))


def accepts_unchanged(self, problem, constants, inputs, outputs, rng):
    given, before = outputs["y"], inputs["y"]
    is_right = np.array_equal(given, before + self.right(inputs), equal_nan=True)
    return "" if is_right or np.array_equal(given, before) else "wrong"


class NoFamily(Base):
    @hookimpl
    def xpu_config(self):
        return []


class AHookRaises(Base):
    @hookimpl
    def xpu_designs(self):
        raise OSError("kernels.tar: not found")


class DialectLost(Right):
    def source(self, dialect):
        return KernelSource("c", "see run()")


def short(self, problem, constants):
    return {"x": (problem.m, problem.n), "y": (problem.m, problem.n)}


def of_floats(self, problem, constants):
    return {"w": (float(problem.n),), "x": (problem.m, problem.n), "y": (problem.m, problem.n)}


def frozen_data(self, problem, constants, rng):
    return Right.data(self, problem, constants, np.random.default_rng(7))


def own_data(self, problem, constants, rng):
    return Right.data(self, problem, constants, np.random.default_rng())


def double_data(self, problem, constants, rng):
    made = Right.data(self, problem, constants, rng)
    return {name: array.astype(np.float64) for name, array in made.items()}


def transposed_data(self, problem, constants, rng):
    made = Right.data(self, problem, constants, rng)
    return {"w": made["w"], "x": np.asfortranarray(made["x"])}


def none_at_zero(self, problem, constants):
    return {name: tuple(1 // size * size or size for size in shape) for name, shape in
            Right.shapes(self, problem, constants).items()}  # fmt: skip


class PreparesTheResult(AsItIs):
    argument = "y"


class NoBytes(AsItIs):
    def prepared_bytes(self, raw_shape, constants):
        return 0


def with_another(self, problem, constants):
    shapes = Right.shapes(self, problem, constants)
    return {**shapes, "z": shapes["y"]}


class DoesNotPrepare(AsItIs):
    def source(self, dialect):
        return KernelSource(dialect, "#error no")


PARTS = "test_parts_of_k_add_up_to_the_result"
VERIFY = "test_a_wrong_result_is_noticed"
RIGHT = "test_every_member_is_right"
DATA = "test_data_have_the_shapes_and_are_fresh"
SAYS = "test_the_design_says_what_it_is"
LOADS = "test_the_plugin_loads_and_families_name_its_designs"
SHAPES = "test_every_argument_has_a_shape"
TEXT = "test_problems_and_constants_are_judged_by_a_text"
NAN = "test_a_row_that_is_not_finite_harms_no_other"
COMPILES = "test_every_member_compiles"
ZERO = "test_a_size_of_zero_is_served"
PROBLEMS = "test_there_are_problems_to_try"
UNCHANGED = "test_a_result_left_as_it_was_is_noticed"

# Plugin, and the tests that find it.
FOUND = {
    with_design("VerifyAcceptsAll", verify=accepts): {VERIFY},
    with_design("VerifyRefusesAll", verify=refuses): {RIGHT},
    with_design("VerifyIsBlindToNan", verify=blind_to_nan): {VERIFY},
    with_design("VerifyLooksAtOne", verify=first_only): {VERIFY},
    with_design(
        "VerifyLooksAtTheLast",
        arguments=(*Right.arguments[:2], Argument("z", "float32", "write"), Right.arguments[2]),
        shapes=with_another,
    ): {VERIFY},
    with_design("VerifySpoilsInputs", verify=spoils): {RIGHT},
    with_design("VerifySaysYes", verify=says_yes): {RIGHT},
    plugin("AMemberIsWrong", members=("mode = 0", "mode = 1")): {RIGHT},
    plugin("AMemberLeavesOneOut", members=("mode = 0", "mode = 2")): {RIGHT},
    plugin("AMemberMixesRows", members=("mode = 0", "mode = 3")): {NAN},
    plugin("AMemberRaises", members=("mode = 0", "mode = 4")): {RIGHT},
    with_design("PartsAreNotCleared", launch=split_launch(clears=False)): {PARTS},
    plugin("TwoMembersAreOne", members=("mode = 0", "mode = 0")): {
        "test_no_two_members_are_the_same"
    },
    with_design("DoesNotCompile", source=lambda _, dialect: KernelSource(dialect, "#error no")): {
        COMPILES
    },
    with_design("DoesNotCompileWhatPrepares", preparation=DoesNotPrepare()): {COMPILES},
    with_design("TheLastIsRead", arguments=Right.arguments[::-1]): {SAYS},
    with_design(
        "AnUnknownType", arguments=(*Right.arguments[:2], Argument("y", "single", "write"))
    ): {SAYS},
    with_design("ANameTwice", parameters=("mode", "mode")): {SAYS},
    plugin("MacrosClash", keys="constants = { mode = 0 }"): {SAYS},
    with_design("PreparedResult", preparation=PreparesTheResult()): {SAYS},
    with_design("NothingPrepared", preparation=NoBytes()): {"test_the_preparation_knows_its_sizes"},
    plugin("WrongDialect", design=DialectLost): {
        "test_there_is_a_source_and_a_launch_in_every_dialect"
    },
    with_design("EmptyGrid", launch=lambda *_: Launch((0, 1, 1))): {
        "test_there_is_a_source_and_a_launch_in_every_dialect"
    },
    with_design("AShapeIsMissing", shapes=short, bytes_touched=lambda *_: 1): {SHAPES},
    with_design("AShapeOfFloats", shapes=of_floats, bytes_touched=lambda *_: 1): {SHAPES},
    with_design("DataAreFrozen", data=frozen_data): {DATA},
    with_design("DataAreItsOwn", data=own_data): {DATA},
    with_design("DataAreDouble", data=double_data): {DATA},
    with_design("DataHaveGaps", data=transposed_data): {DATA},
    with_design("JudgesByNone", check_constants=lambda *_: None): {TEXT},
    with_design("FiguresAreFloats", operations=lambda *_: 1e3): {
        "test_its_figures_are_whole_numbers"
    },
    with_design("ZeroIsNoSize", shapes=none_at_zero): {ZERO},
    plugin(
        "UnchangedIsRight",
        design=type("Update", (Right,), {"arguments": UPDATED, "verify": accepts_unchanged}),
        family="update",
    ): {UNCHANGED},
    with_design("NoProblemIsSmall", operations=lambda *_: 1 << 30): {PROBLEMS},
    with_design("NoProblemIsJudged", check_problem=lambda self, problem, _: 1 // problem.k): {
        PROBLEMS
    },
    NoFamily: {LOADS},
    AHookRaises: {LOADS},
}
# Those whose whole suite is run: what fails there is all that fails, and the rest is skipped.
WHOLE = {"DoesNotCompile", "DoesNotCompileWhatPrepares", "NoProblemIsSmall", "AHookRaises"}
globals().update({made.__name__: made for made in FOUND})
