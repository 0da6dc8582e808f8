"""How many copies of the data a cold measurement goes round."""

from __future__ import annotations

from typing import Final

ABSENT_CACHE_BYTES: Final = 256 << 20
"""Cache size that is assumed where a device reports none.

Absent must not mean warm: with more copies than needed a reading is as cold and only the
memory is wasted, with fewer it would be called cold and be warm. 256 MiB is the largest
cache in front of one device's memory that is common today.
"""

FACTOR: Final = 4
"""Bytes touched before a copy comes back, in caches' sizes.

Why: seeds, "Cold-L2 benchmark support", asks for a count derived from the last-level cache
and names no factor. Once would do for a cache that drops the oldest line first; real ones
keep a part of a stream, and of four times their size they keep little. Copies are
passed over where launches of unlike lengths take turns (`KernelTimer`), in most rounds few: what
lies between two reads of one is at the least the cache's size.
"""


def rotation_count(
    last_level_cache_bytes: int | None, bytes_touched: int, *, factor: float = FACTOR
) -> int:
    """Return how many copies of its data a launch must rotate through to read cold memory.

    Parameters
    ----------
    last_level_cache_bytes
        Size of the device's last-level cache in bytes; None where it is unknown, then
        `ABSENT_CACHE_BYTES` stands for it.
    bytes_touched
        What one launch reads and writes, in bytes.
    factor
        How many caches' sizes all copies together must fill, see `FACTOR`.

    Returns
    -------
    int
        At least 1: data that fills `factor` caches by itself needs no copy, and neither
        does a launch that touches nothing.

    Notes
    -----
    Source: seeds, "Cold-L2 benchmark support": the count is derived from the last-level
    cache, so that each timed launch reads memory that the cache no longer holds.
    """
    if bytes_touched < 1:
        return 1
    cache = ABSENT_CACHE_BYTES if last_level_cache_bytes is None else last_level_cache_bytes
    return max(1, -int(-cache * factor // bytes_touched))
