"""The command line: ``xpu``. The one room that prints and that ends the process."""

from xpu.cli.app import main

__all__ = ["main"]
