"""The interpreter's search for garbage in cycles, made fit for a process that serves for days.

By default every 700th new object begins a search, and some go through all that is alive: some 3 of the 40 ms that a
recorded stream of 300 deltas took, and pauses in every other one. Nearly everything here is freed by reference counts.
"""

from __future__ import annotations

import gc

#: New objects until the young are searched, searches of the young until the middle-aged are, and so on.
THRESHOLDS = (20_000, 10, 10)


def settle() -> None:
    """Free what is garbage now, and leave what is alive out of later searches. Call after loading something large."""
    gc.unfreeze()  # what was loaded earlier may be garbage by now
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
