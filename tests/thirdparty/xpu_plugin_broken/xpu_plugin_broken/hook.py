"""Its hook raises."""

from __future__ import annotations

from xpu.spec import hookimpl


@hookimpl
def xpu_designs():
    raise RuntimeError("the acme driver\nsays no")
