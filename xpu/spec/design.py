"""What a family plugin supplies: a kernel design.

A design is one parameterised kernel: sources by dialect, the arguments of a launch, a host
reference, data for a trial and, where it pays, a preparation of its weights. It names
dialects and facts, never a backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import attrs

from xpu.model import Constant, Declarations, Problem
from xpu.spec.elements import host_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]
    Arrays = Mapping[str, Array]

Access = Literal["read", "write", "update"]


@attrs.frozen
class Argument:
    """One array argument of a launch, in the order of a call.

    Attributes
    ----------
    name
        For messages and for keyword use.
    dtype
        numpy's name of the element type, for instance ``float32``; or ``bfloat16``, which is
        uint16 in host memory (`xpu.spec.host_dtype`).
    access
        ``read``, ``write`` (every element is written) or ``update`` (in place).
    """

    name: str
    dtype: str
    access: Access

    def takes(self, dtype: str) -> bool:
        """Whether an array whose element type has this name can be the argument."""
        return dtype in (self.dtype, host_dtype(self.dtype).name)


@attrs.frozen
class Launch:
    """How a member is launched on a problem: grid, block and dynamic shared memory.

    A host dialect has neither: the backend spreads the work over its workers.

    Attributes
    ----------
    clears_result
        Whether the last array is set to zero bytes first, in the same queue: parts of one
        sum that blocks of their own make are then added to it.
    alignment_bytes
        What every array's address is a multiple of. A launch on another is refused.
    """

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] | None = None
    dynamic_shared_bytes: int = 0
    clears_result: bool = False
    alignment_bytes: int = 1


@attrs.frozen
class KernelSource:
    """The source of a kernel in one dialect, or the routine of a library in its place.

    `design`, `preparation` and `launch` are filled by a plugin that adds a dialect to another
    plugin's design: the design itself answers for its own dialects.

    Attributes
    ----------
    text, includes
        What is compiled, and the files that it may include, by name.
    design
        Name of the design.
    preparation
        The preparing kernel in the same dialect, of the sizes that the design's preparation
        states. None: the kernel takes its weights as a caller gives them.
    launch
        From a member's parameters and a problem, how the kernel is launched. None: as the
        design's `launch` says of this dialect.
    routine
        In the place of a text: the name of a routine of `xpu.spec.routines`, which takes the
        design's arguments (those that are staged, as they are then) and sizes.
    """

    dialect: str
    text: str = ""
    includes: Mapping[str, str] = attrs.field(factory=dict)
    design: str | None = None
    preparation: KernelSource | None = None
    launch: Callable[[Mapping[str, int], Problem], Launch] | None = None
    routine: str | None = None


class Preparation(ABC):
    """A kernel that takes a raw argument and gives what another kernel reads instead of it.

    As `Design.preparation` it repacks weights, once at load, the same way for all members of
    a family, so that members stay interchangeable. As `Design.staging` it runs before every
    launch of a member, in the same queue.
    """

    argument: str
    """Name of the argument that is prepared."""

    constants: tuple[str, ...] | None = None
    """Names of the family's constants that the kernel's code depends on; None: all of them.

    Families that differ in other constants alone share the code, and so prepared weights."""

    declared: Declarations = Declarations()
    """What decorators of `xpu.spec` add: `occupancy`, `wave`, `fast_math`."""

    @abstractmethod
    def source(self, dialect: str) -> KernelSource:
        """Return the preparing kernel; its buffers are the raw and the prepared array."""

    @abstractmethod
    def sizes(
        self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> tuple[int, ...]:
        """Return the whole numbers that the preparing kernel takes, from the raw shape."""

    @abstractmethod
    def prepared_bytes(self, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]) -> int:
        """Return the size of the prepared array in bytes."""

    def launch(
        self, dialect: str, raw_shape: tuple[int, ...], constants: Mapping[str, Constant]
    ) -> Launch:
        """Return how the preparing kernel is launched; a host dialect needs none of it."""
        return Launch()


class Design(ABC):
    """One parameterised kernel.

    Attributes
    ----------
    name
        What a family's ``design`` key says.
    parameters
        Names of the shape parameters that a member may set; each becomes a macro.
    problem
        Names of the sizes, in the order in which the kernel takes them.
    arguments
        The array arguments, in the order of a call. The last one is written or updated: it
        is the result, and a caller gives it as ``out=``.
    preparation
        A repacking of one argument, or None.
    declared
        What the decorators of `xpu.spec` add: `occupancy`, `wave`, `fast_math`, `instantiate`,
        `requires`, `unlowered`, `unbounded`.
    """

    name: str
    parameters: tuple[str, ...]
    problem: tuple[str, ...]
    arguments: tuple[Argument, ...]
    preparation: Preparation | None = None
    default_constants: Mapping[str, Constant] = MappingProxyType({})
    declared: Declarations = Declarations()

    def for_constants(self, constants: Mapping[str, Constant]) -> Design:
        """Return the design as a family with these constants has it.

        A design whose arguments or launches depend on them (on an element type, say) returns
        a copy with its own; all else that the core asks for a family is asked of that copy.
        """
        return self

    @abstractmethod
    def dialects(self) -> tuple[str, ...]:
        """Name the dialects that the design has a source for."""

    @abstractmethod
    def source(self, dialect: str) -> KernelSource:
        """Return the source in a dialect."""

    @abstractmethod
    def shapes(
        self, problem: Problem, constants: Mapping[str, Constant]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of every argument as a caller gives it (weights unprepared)."""

    def check_problem(self, problem: Problem, constants: Mapping[str, Constant]) -> str:
        """Return why the design cannot serve a problem; the empty text when it can."""
        return ""

    def check_constants(self, constants: Mapping[str, Constant]) -> str:
        """Return why a family's constants are not acceptable; the empty text when they are."""
        return ""

    def launch(self, dialect: str, member: Mapping[str, int], problem: Problem) -> Launch:
        """Return how a member is launched; a host dialect needs none of it.

        `member` holds its parameters and, where the rules recorded them, ``splits``, the least
        number of parts of k whose blocks occupy the device, and ``resident_splits``, the most
        whose blocks run at once.
        """
        return Launch()

    def staging(self, dialect: str, member: Mapping[str, int]) -> Sequence[Preparation]:
        """Return what runs before every launch of a member, in order, each for one argument.

        Each brings its argument into the form that the member reads: activations to 8 bits,
        say. What it writes lies in memory that belongs to the launch, and the member's
        kernel takes that in the argument's place. An argument that `preparation` repacks is
        read as it was repacked; its `raw_shape` is that of the array that a caller has.
        """
        return ()

    @abstractmethod
    def data(
        self, problem: Problem, constants: Mapping[str, Constant], rng: np.random.Generator
    ) -> Arrays:
        """Make fresh random data for every argument that is read or updated."""

    @abstractmethod
    def verify(
        self,
        problem: Problem,
        constants: Mapping[str, Constant],
        inputs: Arrays,
        outputs: Arrays,
        rng: np.random.Generator,
    ) -> str:
        """Compare outputs with an independent reference, on a random sample of them.

        Parameters
        ----------
        inputs
            What the kernel was given, weights unprepared; for an argument that is updated
            in place, its state before the launch.
        outputs
            The written arguments by name, after the launch.

        Returns
        -------
        str
            The empty text when right; otherwise what is wrong, with the figures.
        """

    def bytes_touched(self, problem: Problem, constants: Mapping[str, Constant]) -> int:
        """Return the bytes that one launch must read and write at least."""
        import math

        shapes = self.shapes(problem, constants)
        return sum(
            math.prod(shapes[argument.name]) * host_dtype(argument.dtype).itemsize
            for argument in self.arguments
        )

    def operations(self, problem: Problem) -> int:
        """Return the arithmetic operations of one launch; 0 when that is not meaningful."""
        return 0

    def arithmetic(self, dialect: str, member: Mapping[str, int]) -> str | None:
        """Name the arithmetic in which a member makes its operations; None when it is not known.

        ``float32``, ``half_matrix``, ``int8_matrix`` or ``int8_dot``: `xpu bench` compares its
        rate with the measured figure of that name.
        """
        return None
