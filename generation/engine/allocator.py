"""The C library's heaps: fewer of them, and what is free in them given back. Nothing happens where it is not glibc."""

from __future__ import annotations

import ctypes
from typing import Any

#: glibc's number for the most heaps.
M_ARENA_MAX = -8


def limit_heaps(heaps: int = 2) -> None:
    """Let all threads share few heaps, where each has up to 64 MB that no other thread uses. Before threads begin.

    16 streams of 2,048 tokens took 1,525 MiB with 2 and 1,547 MiB with as many as glibc likes. The model's big
    allocations are not in heaps, and its threads rarely make small ones.
    """
    if mallopt := _function("mallopt"):
        mallopt(M_ARENA_MAX, heaps)


def give_memory_back() -> None:
    """Let the system have what is free: after loading 20 MB with bf16 weights, 140 MB with f32 ones."""
    if trim := _function("malloc_trim"):
        trim(0)


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None)
