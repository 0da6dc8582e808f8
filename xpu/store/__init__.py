"""What was measured once and is remembered: answers by device, part and name, as small files.

The choice and the probes keep their answers here; the command line lists and removes them.
Figures of whole devices have files of their own (`Calibrations`). Nothing here measures, and no
failing disk stops a program: answers then live in memory.
"""

from xpu.store.autotune import Autotune
from xpu.store.build_id import build_id
from xpu.store.calibration import CalibrationFile, Calibrations
from xpu.store.entry import Entry, StoredEntry
from xpu.store.listing import remove_entries, stored_entries
from xpu.store.names import device_key

__all__ = [
    "Autotune",
    "CalibrationFile",
    "Calibrations",
    "Entry",
    "StoredEntry",
    "build_id",
    "device_key",
    "remove_entries",
    "stored_entries",
]
