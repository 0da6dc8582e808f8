"""The version of what plugins see; a plugin states the one it was written for."""

from __future__ import annotations

from typing import Final

SPEC_VERSION: Final = 1
"""Raised when a class or hook in `xpu.spec` changes so that an older plugin would break."""
