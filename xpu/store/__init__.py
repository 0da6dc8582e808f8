"""What was measured once and is remembered: answers by device, part and name, as small files.

The choice and the probes keep their answers here; the command line lists and removes them.
Nothing here measures, and no failing disk stops a program: answers then live in memory.
"""

from xpu.store.autotune import Autotune
from xpu.store.build_id import build_id
from xpu.store.entry import Entry, StoredEntry
from xpu.store.listing import remove_entries, stored_entries

__all__ = [
    "Autotune",
    "Entry",
    "StoredEntry",
    "build_id",
    "remove_entries",
    "stored_entries",
]
