"""Prelude text that backends of one dialect share.

The dialect `simt` has a prelude of each backend's own; what needs no device and no vendor in
it stands in ``xpu_simt_common.h`` and what it includes, so that it is the same everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType


@functools.cache
def simt_prelude() -> Mapping[str, str]:
    """Return the shared headers of the dialect `simt`, text by file name.

    A backend hands them to its compiler beside its own ``xpu_simt.h``, which includes them
    after it has supplied what their first comment lists.
    """
    folder = resources.files("xpu.spec") / "simt"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return MappingProxyType(
        {file.name: file.read_text("utf-8") for file in files if file.name.endswith(".h")}
    )
