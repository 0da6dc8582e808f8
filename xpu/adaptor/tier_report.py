"""Says on the logger which tier the matrices of a build got, each distinct choice once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from xpu.adaptor.built import Built
from xpu.errors import XpuBuildError
from xpu.spec import DEMOTED

_LOGGER: Final = logging.getLogger("xpu")


class TierReport:
    """What was said of one build; a choice is a target, a shape and a tier."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str, str]] = set()

    def say(self, results: Iterable[Built | XpuBuildError]) -> None:
        """Say what kernels chose that no kernel before them did."""
        for result in results:
            if isinstance(result, Built):
                self._say(result)

    def _say(self, built: Built) -> None:
        target = built.manifest.target
        for operation in built.manifest.operations:
            shape, tier = operation.instruction, operation.tier
            if not operation.is_shape or (target, shape, tier) in self._said:
                continue
            self._said.add((target, shape, tier))
            if tier == DEMOTED:
                _LOGGER.warning(
                    "%s: matrices %s are multiplied in software, though the target has them: %s "
                    "uses them with others of their rows and columns that it has not",
                    *(target, shape, built.kernel),
                )
            else:
                _LOGGER.info("%s: matrices %s are %s (%s)", target, shape, tier, built.kernel)
