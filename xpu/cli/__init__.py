"""The command line: ``xpu``. The one room that prints and that ends the process."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and end the process with its status."""
    try:
        # Imported here: Ctrl-C while modules are read must not end in a traceback either.
        from xpu.cli.app import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    # To look through what is left when the process ends takes a twentieth of a long table's time.
    gc.freeze()
    sys.exit(status)
