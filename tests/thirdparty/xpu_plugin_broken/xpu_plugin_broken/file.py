"""It ships a file that is not there."""

from pathlib import Path

from xpu.spec import hookimpl


@hookimpl
def xpu_config():
    return [Path(__file__).with_name("families.toml")]
