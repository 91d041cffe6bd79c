from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from generation.engine import allocator

#: Fills a heap in each of 8 threads at once, then lets glibc say how many heaps there are.
COUNT_HEAPS = """
import ctypes, threading
{}
threads, libc = [], ctypes.CDLL(None)
barrier = threading.Barrier(8)
def fill():
    libc.malloc.restype = ctypes.c_void_p
    kept = [libc.malloc(1000) for _ in range(100)]
    barrier.wait()
for _ in range(8):
    threads.append(threading.Thread(target=fill))
    threads[-1].start()
[thread.join() for thread in threads]
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""

is_glibc = hasattr(ctypes.CDLL(None), "malloc_info")


def heaps(first: str) -> int:
    done = subprocess.run([sys.executable, "-c", COUNT_HEAPS.format(first)], capture_output=True, text=True, check=True)
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(not is_glibc, reason="the C library is not glibc")
def test_threads_share_two_heaps_when_the_engine_is_imported() -> None:
    assert heaps("import generation.engine") <= 2 < heaps("")


def test_nothing_happens_when_the_c_library_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    allocator.limit_heaps()
    allocator.give_memory_back()
