"""Folders that exist whole or not at all.

In: a target path. Out: an empty folder to fill, which takes the target's place in one rename after it is synced.
A crash at any point leaves the old target or none, plus a ``*.partial`` folder that the next call removes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"


@contextmanager
def folder_lock(parent: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the one lock of everything below ``parent``, across threads and processes; a killed holder frees it."""
    parent.mkdir(parents=True, exist_ok=True)
    with open(parent / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder beside ``target``; put it in the target's place if the block ends without an exception.

    Call with the parent's `folder_lock` held: every other partial folder is then a left-over and is removed.
    """
    for leftover in target.parent.glob(f".*{PARTIAL}"):
        shutil.rmtree(leftover)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", suffix=PARTIAL, dir=target.parent))
    try:
        yield partial
        partial.chmod(0o755)
        _sync(partial)
        _put_in_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(partial: Path, target: Path) -> None:
    if target.exists():
        # A folder cannot be renamed over a full one, so the old one steps aside first.
        old = target.with_name(f".{target.name}-old{PARTIAL}")
        target.rename(old)
        partial.rename(target)
        shutil.rmtree(old)
    else:
        partial.rename(target)
    _sync_path(target.parent)


def _sync(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        _sync_path(path)


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
