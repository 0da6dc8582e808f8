"""What a device and a kernel's code are known to be.

Facts are read, never guessed: `DeviceFacts` from a driver, `KernelFacts` from a code
object. A fact that cannot be had is `None`. Backends make these; the filter reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from xpu.errors import XpuConfigError
from xpu.model._facts import count_or_absent, frozen_mapping, whole_or_absent
from xpu.model.matrix import MatrixShape
from xpu.model.names import nearest

ANY_BACKEND: Final = "any"
"""The backend of facts that say none."""


def _count() -> Any:
    return attrs.field(default=None, converter=count_or_absent, kw_only=True)


def _texts_or_absent(value: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _whole() -> Any:
    return attrs.field(default=None, converter=whole_or_absent, kw_only=True)


@attrs.frozen
class DeviceFacts:
    """One device as its driver reports it.

    Counts are whole numbers, sizes are in bytes. A zero where zero is impossible is
    turned into absent, so that no rule ever divides by it or prunes against it.
    `matrix_shapes` are the cooperative matrices that its instructions make up, each in the
    form of `MatrixShape`. `further` holds the facts that a backend declares by name beyond these.

    Raises
    ------
    XpuConfigError
        A count is not a whole number.
    """

    backend: str = attrs.field(default=ANY_BACKEND, kw_only=True)
    name: str | None = attrs.field(default=None, kw_only=True)
    architecture: str | None = attrs.field(default=None, kw_only=True)
    uuid: str | None = attrs.field(default=None, kw_only=True)
    driver_version: str | None = attrs.field(default=None, kw_only=True)
    multiprocessors: int | None = _count()
    simds_per_multiprocessor: int | None = _count()
    wave_width: int | None = _count()
    max_threads_per_block: int | None = _count()
    max_threads_per_multiprocessor: int | None = _count()
    max_blocks_per_multiprocessor: int | None = _count()
    registers_per_multiprocessor: int | None = _count()
    register_allocation_unit: int | None = _count()
    max_registers_per_thread: int | None = _count()
    shared_bytes_per_block: int | None = _count()
    shared_bytes_per_block_optin: int | None = _count()
    shared_bytes_per_multiprocessor: int | None = _count()
    # Older parts reserve nothing: here 0 is a figure, not a driver's way to say nothing.
    reserved_shared_bytes_per_block: int | None = _whole()
    last_level_cache_bytes: int | None = _count()
    memory_bytes: int | None = _count()
    max_grid_x: int | None = _count()
    max_grid_y: int | None = _count()
    max_grid_z: int | None = _count()
    matrix_shapes: tuple[str, ...] | None = attrs.field(
        default=None, converter=_texts_or_absent, kw_only=True
    )
    source: str | None = attrs.field(default=None, kw_only=True)
    multiprocessor_unit: str | None = attrs.field(default=None, kw_only=True)
    further: Mapping[str, int | float | str] = attrs.field(
        factory=dict, converter=frozen_mapping, kw_only=True
    )

    @classmethod
    def from_mapping(
        cls, facts: Mapping[str, Any], *, further: Iterable[str] = (), where: str = "facts"
    ) -> DeviceFacts:
        """Make facts from named values, as a facts file holds them.

        Parameters
        ----------
        facts
            Values by field name.
        further
            Names that a backend declares beyond the fields.
        where
            What to call the origin in an error.

        Raises
        ------
        XpuConfigError
            A name is neither a field nor declared, or a value has the wrong type.
        """
        declared = set(further)
        own: dict[str, Any] = {}
        more: dict[str, Any] = {}
        for name, value in facts.items():
            if name in DEVICE_FACT_NAMES:
                own[name] = _typed(name, value, where)
            elif name in declared:
                more[name] = value
            else:
                allowed = sorted({*DEVICE_FACT_NAMES, *declared})
                raise XpuConfigError(
                    f"{where}: no fact is called {name!r}; {nearest(name, allowed)}"
                )
        return cls(**own, further=more)

    def get(self, name: str) -> Any:
        """Return a fact by name, a further one included; None when it is absent."""
        if name in self.further:
            return self.further[name]
        return getattr(self, name, None) if name in DEVICE_FACT_NAMES else None


DEVICE_FACT_NAMES: Final[frozenset[str]] = frozenset(
    field.name for field in attrs.fields(DeviceFacts) if field.name != "further"
)
_TEXT_FACTS: Final = frozenset(
    {"backend", "name", "architecture", "uuid", "driver_version", "source", "multiprocessor_unit"}
)


def _typed(name: str, value: Any, where: str) -> Any:
    if name in _TEXT_FACTS:
        if not isinstance(value, str):
            raise XpuConfigError(f"{where}: fact {name!r} is text, not {value!r}")
        return value
    if name == "matrix_shapes":
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise XpuConfigError(f"{where}: fact {name!r} is a list of texts, not {value!r}")
        return [_shape(text, where) for text in value]
    if isinstance(value, bool) or not isinstance(value, int):
        raise XpuConfigError(f"{where}: fact {name!r} is a whole number, not {value!r}")
    if value < 0:
        raise XpuConfigError(f"{where}: fact {name!r} is {value}; allowed: 0 or more")
    return value


def _shape(text: str, where: str) -> str:
    try:
        return str(MatrixShape.from_text(text))
    except XpuConfigError as error:
        raise XpuConfigError(
            f"{where}: fact 'matrix_shapes' is a list of shapes: {error}"
        ) from error


@attrs.frozen
class KernelFacts:
    """What the compiler made of one kernel, read from its code object.

    `registers` is per thread, sizes are in bytes, `code_hash` is the sha256 of the
    device code. A backend that reports no registers leaves them absent, and a rule
    that needs them prunes nothing there. `spill_stores` are instructions of a host's code that
    keep a value on the stack for want of a register: it stays in the first cache there, so
    that no gate and no rule as shipped is about them.
    """

    registers: int | None = _count()
    spill_bytes: int | None = _whole()
    static_shared_bytes: int | None = _whole()
    stack_bytes: int | None = _whole()
    spill_stores: int | None = _whole()
    pinned_block: int | None = _count()
    vector_instructions: int | None = _whole()
    code_hash: str | None = attrs.field(default=None, kw_only=True)


KERNEL_FACT_NAMES: Final[frozenset[str]] = frozenset(
    field.name for field in attrs.fields(KernelFacts) if field.name != "code_hash"
)
