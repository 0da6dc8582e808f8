"""Weights prepared once at load, so that a call need not repack them."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, NoReturn

import attrs

from xpu.adaptor import Built
from xpu.choice import Arm
from xpu.choice.job import launch_once
from xpu.errors import XpuLaunchException, XpuPluginError
from xpu.model import Family
from xpu.spec import Argument, Design, Device, DeviceArray

_LOGGER: Final = logging.getLogger("xpu")


@attrs.frozen(eq=False, weakref_slot=True)
class PreparedWeights:
    """Weights in the layout that the kernels of a format read.

    They serve every member of a family, and every family with the same preparation and
    constants. The raw array is not needed any more.

    Attributes
    ----------
    shape
        Shape of the raw array that it was made from.
    nbytes
        Size in bytes.
    device
        Name of the device in whose memory they lie, with its UUID where it has one.
    kind
        Code, device and shape: what weights that serve the same calls have in common. Those that
        one preparer made share the object.
    """

    array: DeviceArray
    shape: tuple[int, ...]
    code_hash: str
    device: str
    kind: tuple[object, ...] = attrs.field(repr=False)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.array.nbytes

    def __deepcopy__(self, _memo: object) -> PreparedWeights:
        return self  # nobody writes to them

    def __reduce__(self) -> NoReturn:
        # A copy would hold an address that is another's, or nobody's.
        raise TypeError(
            "prepared weights cannot be pickled: they lie in this process's memory; send the "
            "raw weights, and call Orchestrator.prepare where they arrive"
        )


class Preparer:
    """Runs the weight preparation of one family on one device."""

    def __init__(
        self, device: Device, family: Family, design: Design, dialect: str, built: Built
    ) -> None:
        if design.preparation is None:
            raise XpuLaunchException(f"family {family.name!r} takes its weights as they are")
        self.family = family.name
        self._device = device
        self._constants = family.constants
        self._preparation = design.preparation
        self._dialect = dialect
        self._kernel = device.load(built.code, built.manifest.entry)
        self._has_warned = False
        self._kinds: dict[tuple[object, ...], tuple[object, ...]] = {}
        self.built = built
        self.argument = next(
            argument
            for argument in design.arguments
            if argument.name == design.preparation.argument
        )

    @property
    def device(self) -> str:
        """Name of the device that weights are prepared on."""
        facts = self._device.facts
        return ", ".join(filter(None, (facts.name or facts.backend, facts.uuid)))

    @property
    def code_hash(self) -> str:
        """Hash of the preparing code: weights of one hash serve whoever has the same."""
        return self.built.manifest.code_hash

    def arm(self, raw_shape: tuple[int, ...]) -> Arm:
        """Return the preparation as a trial runs it.

        Raises
        ------
        XpuLaunchException
            Its block is larger than its code was compiled for.
        """
        sizes = self._preparation.sizes(raw_shape, self._constants)
        launch = self._preparation.launch(self._dialect, raw_shape, self._constants)
        if why := self.built.refuses(launch):
            raise XpuLaunchException(why)
        return Arm(self.built.code, self.built.manifest.entry, self.code_hash, launch, sizes)

    def prepared_bytes(self, raw_shape: tuple[int, ...]) -> int:
        """Return the size of the prepared array in bytes."""
        return self._preparation.prepared_bytes(raw_shape, self._constants)

    def warn_once(self) -> None:
        """Say, once for a family, that raw weights cost a repacking at every call."""
        if not self._has_warned:
            self._has_warned = True
            _LOGGER.warning(
                "%s: raw weights are repacked at every call; Orchestrator.prepare(%r, weights) "
                "does it once",
                self.family,
                self.family,
            )

    def prepare(self, raw: Any) -> PreparedWeights:
        """Prepare an array on the device.

        Raises
        ------
        XpuLaunchException
            It cannot be taken, or has another element type or no possible shape.
        """
        where, name = self.family, self.argument.name
        array = imported(where, self.argument, self._device, raw, writable=False)
        try:
            arm = self.arm(array.shape)
            nbytes = self.prepared_bytes(array.shape)
        except (ValueError, TypeError, XpuPluginError) as error:
            why = error.__cause__ if isinstance(error, XpuPluginError) else error
            if not isinstance(why, ValueError | TypeError):
                raise
            # Weights of another shape than the design unpacks are the caller's mistake.
            raise XpuLaunchException(
                f"{where}: argument {name!r} cannot have the shape {array.shape}: {why}"
            ) from why
        prepared = self._device.allocate(nbytes)
        launch_once(self._device, self._kernel, arm.launch, (array, prepared), arm.sizes)
        kind: tuple[object, ...] = (self.code_hash, self.device, array.shape)
        kind = self._kinds.setdefault(kind, kind)
        return PreparedWeights(prepared, array.shape, self.code_hash, self.device, kind)

    def check(self, where: str, weights: PreparedWeights) -> None:
        """Refuse weights that a kernel of the family cannot read; `where` begins the message.

        Raises
        ------
        XpuLaunchException
            They were prepared by other code, or lie on another device.
        """
        how = f"use Orchestrator.prepare({self.family!r}, …)"
        if weights.code_hash != self.code_hash:
            raise XpuLaunchException(
                f"{where}: these weights were prepared for another format or target; {how}"
            )
        if weights.device != self.device:
            raise XpuLaunchException(
                f"{where}: these weights were prepared on {weights.device}, the kernel runs on "
                f"{self.device}; {how} of an orchestrator on that device; nothing was launched"
            )


def imported(
    where: str, argument: Argument, device: Device, value: Any, *, writable: bool
) -> DeviceArray:
    """Have a device take a caller's array for an argument; `where` begins every message.

    Raises
    ------
    XpuLaunchException
        It cannot be taken, is masked, or has another element type.
    """
    try:
        _refuse_masked(value)
        array = device.import_array(value, writable=writable)
    except XpuLaunchException as cause:
        raise XpuLaunchException(f"{where}: argument {argument.name!r}: {cause}") from cause
    if not argument.takes(array.dtype):
        raise XpuLaunchException(
            f"{where}: argument {argument.name!r} is {argument.dtype}, given {array.dtype}"
        )
    return array


def _refuse_masked(value: object) -> None:
    """Refuse a numpy masked array, which devices take for the plain one that it derives from."""
    # Nobody has made one before the module is loaded, which numpy puts off until it is asked for.
    module = sys.modules.get("numpy.ma")
    if module is not None and isinstance(value, module.MaskedArray):
        raise XpuLaunchException(
            f"an object of type {type(value).__name__} has a mask, which no kernel reads; pass "
            "array.filled(value), or array.data where the mask does not matter"
        )
