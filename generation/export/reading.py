"""Reads streams page by page, newest first, and gives their lines in chunks.

Pages are cut by id and no cursor outlives one, so that a chunk costs the same however far down it lies, streams that
come meanwhile change nothing, and between two chunks neither a transaction nor a connection is needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.db.models import Prefetch, QuerySet

from generation.export.corpus_lines import corpus_item
from generation.export.csv_lines import csv_header, csv_line
from generation.export.json_lines import json_line
from generation.export.records import CONTENT, delta_records, stream_record
from generation.models import DeltaBatch, Review, Stream
from generation.stream_search import walk

#: Streams a page; a row with its content can be hundreds of kilobytes.
FIGURES_PAGE = 200
CONTENT_PAGE = 50
#: Batches of deltas a query: some 25 s of a stream.
BATCHES = 100
#: Lines of deltas are gathered to chunks of about this size.
CHUNK_BYTES = 64 * 1024


class ExportFormat(StrEnum):
    """What a line is: a stream in CSV or JSON, a delta, or a request as an item of a corpus."""

    CSV = "csv"
    JSONL = "jsonl"
    DELTAS = "deltas"
    MESSAGES = "messages"

    @property
    def label(self) -> str:
        """What it is called in a sentence."""
        return {"csv": "CSV", "jsonl": "JSON lines"}.get(self.value, self.value)

    @property
    def suffix(self) -> str:
        return {"csv": ".csv", "jsonl": ".jsonl"}.get(self.value, f".{self.value}.jsonl")

    @property
    def content_type(self) -> str:
        return "text/csv; charset=utf-8" if self is ExportFormat.CSV else "application/x-ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole lines, perhaps none, and how many streams are done with them."""

    lines: bytes
    streams: int


def chunks(
    streams: QuerySet[Stream], export_format: ExportFormat, *, content: bool, limit: int | None = None
) -> Iterator[Chunk]:
    """The lines of these streams, or of the ``limit`` newest; without ``content``, what was written is left out.

    Blocks on the database. ValueError for messages without content, as they are nothing else.
    """
    if export_format is ExportFormat.MESSAGES and not content:
        raise ValueError("messages are content; they cannot be exported without it")
    return _chunks(streams, export_format, content=content, limit=limit)


async def read_in_threads(lines: Iterator[Chunk]) -> AsyncIterator[bytes]:
    """The chunks for a streaming response: used on the event loop, each is read in the request's thread."""
    while (chunk := await sync_to_async(_next_chunk)(lines)) is not None:
        if chunk.lines:
            yield chunk.lines


def _next_chunk(lines: Iterator[Chunk]) -> Chunk | None:
    """Runs in a thread, whose connection goes back before a slow reader is waited for."""
    try:
        return next(lines, None)
    finally:
        close_old_connections()


def _chunks(
    streams: QuerySet[Stream], export_format: ExportFormat, *, content: bool, limit: int | None
) -> Iterator[Chunk]:
    if export_format is ExportFormat.CSV:
        yield Chunk(lines=csv_header(content=content), streams=0)
    size = CONTENT_PAGE if content else FIGURES_PAGE
    for ids in _id_pages(streams, size, limit):
        if export_format is ExportFormat.DELTAS:
            yield from _delta_chunks(ids, content=content)
        else:
            yield Chunk(lines=b"".join(_lines(ids, export_format, content=content)), streams=len(ids))


def _id_pages(streams: QuerySet[Stream], size: int, limit: int | None) -> Iterator[list[int]]:
    ids_of = streams.values_list("pk", flat=True)
    following = ids_of
    while limit is None or limit > 0:
        size = size if limit is None else min(size, limit)
        ids = walk(following, size).rows
        if ids:
            yield ids
        if len(ids) < size:
            return
        following = ids_of.filter(pk__lt=ids[-1])
        limit = None if limit is None else limit - len(ids)


def _lines(ids: Sequence[int], export_format: ExportFormat, *, content: bool) -> Iterator[bytes]:
    streams = Stream.objects.filter(pk__in=ids).order_by("-pk")
    if export_format is ExportFormat.MESSAGES:
        items = map(corpus_item, streams.only("messages", "parameters", "has_text"))
        yield from (json_line(item) for item in items if item is not None)
        return
    whole = streams.select_related("user", "api_key").prefetch_related(
        Prefetch("reviews", Review.objects.select_related("reviewer").defer("reviewer__password"))
    )
    for stream in whole.defer("user__password", "api_key__secret_sha256", *(() if content else CONTENT)):
        record = stream_record(stream, content=content)
        yield csv_line(record, content=content) if export_format is ExportFormat.CSV else json_line(record)


def _delta_chunks(ids: Sequence[int], *, content: bool) -> Iterator[Chunk]:
    lines: list[bytes] = []
    size = done = 0
    with_text = dict(Stream.objects.filter(pk__in=ids).values_list("pk", "has_text"))
    for stream_id in ids:
        for first_seq, deltas in _batches(stream_id):
            has_text = with_text.get(stream_id, False)
            records = delta_records(stream_id, first_seq, deltas, content=content, has_text=has_text)
            lines.append(b"".join(map(json_line, records)))
            size += len(lines[-1])
            if size >= CHUNK_BYTES:
                yield Chunk(lines=b"".join(lines), streams=done)
                lines, size, done = [], 0, 0
        done += 1
    yield Chunk(lines=b"".join(lines), streams=done)


def _batches(stream_id: int) -> Iterator[tuple[int, list[dict[str, object]]]]:
    after = 0
    while True:
        following = DeltaBatch.objects.filter(stream=stream_id, first_seq__gt=after).order_by("first_seq")
        batches = list(following.values_list("first_seq", "deltas")[:BATCHES])
        yield from batches
        if len(batches) < BATCHES:
            return
        after = batches[-1][0]
