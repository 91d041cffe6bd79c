from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from generation.export import Chunk, ExportFormat, chunks, read_in_threads, reading
from generation.models import Review, Stream

MakeStream = Callable[..., Stream]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"FIGURES_PAGE": 3, "CONTENT_PAGE": 2, "BATCHES": 2, "CHUNK_BYTES": 300}.items():
        monkeypatch.setattr(reading, name, size)


def lines(streams: QuerySet[Stream], form: ExportFormat, *, content: bool = True, **more: Any) -> list[dict[str, Any]]:
    whole = b"".join(chunk.lines for chunk in chunks(streams, form, content=content, **more))
    return [json.loads(line) for line in whole.splitlines()]


@pytest.mark.parametrize("content", [True, False])
@pytest.mark.parametrize("form", [ExportFormat.CSV, ExportFormat.JSONL])
def test_every_stream_is_a_line_once_newest_first_when_pages_end_anywhere(
    form: ExportFormat, content: bool, small_pages: None, make_stream: MakeStream
) -> None:
    for count in range(8):
        pieces = list(chunks(Stream.objects.all(), form, content=content))
        whole = b"".join(piece.lines for piece in pieces).decode()
        ids = (
            [int(row["id"]) for row in csv.DictReader(io.StringIO(whole, newline=""))]
            if form is ExportFormat.CSV
            else [json.loads(line)["id"] for line in whole.splitlines()]
        )
        assert ids == list(Stream.objects.order_by("-pk").values_list("pk", flat=True))
        assert sum(piece.streams for piece in pieces) == count
        make_stream()


def test_streams_that_come_meanwhile_change_nothing(small_pages: None, make_stream: MakeStream) -> None:
    ids = [make_stream().pk for _ in range(5)][::-1]
    pieces = chunks(Stream.objects.all(), ExportFormat.JSONL, content=True)
    read = [next(pieces)]
    make_stream()
    Stream.objects.filter(pk=ids[-1]).delete()
    read += pieces
    assert [json.loads(line)["id"] for piece in read for line in piece.lines.splitlines()] == ids[:-1]


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (2, 2), (5, 5), (6, 6), (99, 7)])
def test_the_newest_are_exported_when_there_is_a_limit(
    limit: int, count: int, small_pages: None, make_stream: MakeStream
) -> None:
    ids = [make_stream().pk for _ in range(7)][::-1]
    exported = lines(Stream.objects.all(), ExportFormat.JSONL, limit=limit)
    assert [line["id"] for line in exported] == ids[:count]


def test_the_querysets_own_filters_and_columns_do_no_harm(make_stream: MakeStream) -> None:
    wanted = make_stream(["tea"], model="other")
    make_stream()
    listed = Stream.objects.filter(model="other").only("state").select_related("user").order_by("-pk")
    (line,) = lines(listed, ExportFormat.JSONL)
    assert (line["id"], line["text"]) == (wanted.pk, "tea")


def test_every_delta_is_a_line_once_when_batches_and_chunks_end_anywhere(
    small_pages: None, make_stream: MakeStream
) -> None:
    streams = [
        make_stream([f"{number}" for number in range(count)], batch_size=size)
        for count, size in [(0, 1), (1, 1), (7, 1), (8, 2), (9, 4), (0, 1)]
    ]
    exported = lines(Stream.objects.all(), ExportFormat.DELTAS)
    assert [(line["stream"], line["seq"], line["text"]) for line in exported] == [
        (stream.pk, seq, f"{seq - 1}") for stream in streams[::-1] for seq in range(1, stream.delta_count + 1)
    ]
    done = sum(piece.streams for piece in chunks(Stream.objects.all(), ExportFormat.DELTAS, content=False))
    assert done == len(streams)


def test_deltas_are_figures_when_content_is_left_out_or_gone(make_stream: MakeStream) -> None:
    make_stream(["tea"])
    assert [
        set(line) & {"text", "chars"} for line in lines(Stream.objects.all(), ExportFormat.DELTAS, content=False)
    ] == [{"chars"}]
    Stream.objects.update(has_text=False)
    assert [line["text"] for line in lines(Stream.objects.all(), ExportFormat.DELTAS)] == [None]


def test_messages_are_refused_when_content_is_left_out() -> None:
    with pytest.raises(ValueError, match="messages are content"):
        chunks(Stream.objects.all(), ExportFormat.MESSAGES, content=False)


def test_streams_without_words_are_left_out_of_messages(make_stream: MakeStream) -> None:
    asked = make_stream(messages=[{"role": "user", "content": "What is tea?"}], parameters={"seed": 7})
    make_stream(has_text=False)
    pieces = list(chunks(Stream.objects.all(), ExportFormat.MESSAGES, content=True))
    assert [(piece.lines, piece.streams) for piece in pieces] == [
        (
            b'{"id": "%d", "messages": [{"role": "user", "content": "What is tea?"}], "seed": 7}\n' % asked.pk,
            2,
        )
    ]


@pytest.mark.parametrize(("form", "queries"), [("csv", 3), ("jsonl", 3), ("messages", 2), ("deltas", 22)])
def test_a_page_takes_few_queries_and_reads_no_content_in_vain(
    form: str, queries: int, make_stream: MakeStream
) -> None:
    for _ in range(20):
        Review.objects.create(stream=make_stream(), label="good")
    with CaptureQueriesContext(connection) as captured:
        list(chunks(Stream.objects.all(), ExportFormat(form), content=form == "messages"))
    # Ids, rows, reviews; for deltas the batches of each stream.
    assert len(captured) == queries
    sql = " ".join(query["sql"] for query in captured)
    assert ('"generation_stream"."text"' in sql, '"password"' in sql, '"secret_sha256"' in sql) == (False, False, False)


def is_open() -> bool:
    """Runs in the thread that reads: whether it holds a connection (a pooled one that went back counts as none)."""
    return connection.connection is not None


@pytest.mark.django_db(transaction=True)
async def test_a_chunk_is_read_only_when_it_is_asked_for_and_no_connection_stays_open() -> None:
    read = 0

    def pieces() -> Any:
        nonlocal read
        for number in range(3):
            Stream.objects.count()
            read += 1
            yield Chunk(lines=b"" if number == 1 else b"%d\n" % number, streams=1)

    rows = read_in_threads(pieces())
    assert (await anext(rows), read) == (b"0\n", 1)
    assert not await sync_to_async(is_open)()
    await asyncio.sleep(0)
    assert read == 1
    assert [row async for row in rows] == [b"2\n"]
    assert not await sync_to_async(is_open)()
