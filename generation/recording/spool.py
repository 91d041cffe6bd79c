"""Entries that the database would not take, in files of the var folder until it does.

A file belongs to the process that holds its lock; one that nobody holds was left by a process that is gone, and
whoever finds it stores it. Each line has a checksum and is on the disk before it counts: a process that is killed in
the middle of a line loses that line alone. Storing twice does no harm, so a file goes only after its last entry.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

from django.db import connection

from generation.recording.entries import Entry, EntryKind

logger = logging.getLogger(__name__)

#: More would fill the disk that the database may be waiting for.
MOST_BYTES = 256 * 1024 * 1024
#: Entries that are stored at once.
BATCH = 64


class Spool:
    """The spool folder of this machine, and this process's file in it while there is one. Used by one thread."""

    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._file: BinaryIO | None = None

    def append(self, entries: Sequence[Entry]) -> None:
        """Put entries on the disk, all or none. Raises OSError when there is no room."""
        if not entries:
            return
        file = self._file = self._file or self._create()
        length = file.tell()
        lines = b"".join(_line({one.name: getattr(entry, one.name) for one in fields(entry)}) for entry in entries)
        try:
            if length + len(lines) > self._most_bytes:
                raise OSError(f"the spool file {file.name} has reached its limit of {self._most_bytes:,} bytes")
            while lines:
                lines = lines[file.write(lines) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(length)
            file.seek(length)
            raise

    def release(self) -> None:
        """Let go of this process's file, for anybody to store. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def import_all(self, store: Callable[[Sequence[Entry]], None]) -> int:
        """Store what lies in files that no other process holds, and remove them; return how many entries it was.

        What ``store`` raises passes through; the file stays then.
        """
        self.release()
        return sum(self._import(path, store) for path in sorted(self._folder.glob("*.jsonl")))

    def _create(self) -> BinaryIO:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in itertools.count():
            path = self._folder / f"{os.getpid()}-{number}.jsonl"
            try:
                # Unbuffered: what could not be written must not be tried again when the file is closed.
                file = open(path, "xb", buffering=0)  # noqa: SIM115
            except FileExistsError:
                continue
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(file.fileno(), 0o600)
            file.write(_line({"database": _database_key()}))
            return file
        raise AssertionError("unreachable")

    def _import(self, path: Path, store: Callable[[Sequence[Entry]], None]) -> int:
        try:
            file = path.open("rb")
        except OSError:
            return 0  # another process has just stored it
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 0
            lines = _read(file, path)
            if next(lines, {}).get("database") != _database_key():
                logger.error("%s holds records of another database than DATABASE_URL names; it stays.", path)
                return 0
            count = 0
            for batch in _batches(lines):
                store(batch)
                count += len(batch)
            path.unlink(missing_ok=True)
        if count:
            logger.warning("%d records that had waited in %s are stored.", count, path.name)
        return count


def _database_key() -> str:
    """What tells this database from others, without its password."""
    database = connection.settings_dict
    place = [str(database.get(name) or "") for name in ("ENGINE", "HOST", "PORT", "NAME")]
    return hashlib.sha256("\n".join(place).encode()).hexdigest()[:16]


def _line(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, separators=(",", ":"), default=dict).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read(file: BinaryIO, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, start=1):
        checksum, _, text = line.rstrip(b"\n").partition(b" ")
        if line.endswith(b"\n") and checksum == b"%08x" % zlib.crc32(text):
            yield json.loads(text)
        else:
            logger.error("Line %d of %s is broken; its record is lost.", number, path)


def _batches(lines: Iterable[dict[str, Any]]) -> Iterator[list[Entry]]:
    entries = (Entry(**{**line, "kind": EntryKind(line["kind"])}) for line in lines)
    while batch := list(itertools.islice(entries, BATCH)):
        yield batch
