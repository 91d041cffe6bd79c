from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from generation import stream_search
from generation.admin.export_actions import EXPORTED
from generation.admin.stream_admin import StreamAdmin
from generation.models import Stream
from tests.live_server import live_server
from tests.staff_sessions import staff_sessions

# The connection goes back after each page, and an open transaction with it.
pytestmark = pytest.mark.django_db(transaction=True)

MakeStream = Callable[..., Stream]
StaffClient = Callable[..., Client]

LIST = reverse("admin:generation_stream_changelist")
#: Beyond the list's own idea of what is recent.
ANY_TIME = "?started=any"
READER = ("view_stream", "view_stream_content", "export_stream")


def export(client: Client, action: str, *streams: Stream, query: str = "", across: str = "0") -> Any:
    fields = {"action": action, "index": "0", "select_across": across, "_selected_action": [s.pk for s in streams]}
    return client.post(f"{LIST}{ANY_TIME}{query}", fields)


def lines_of(response: Any) -> list[str]:
    """The lines of a download."""

    async def read(parts: AsyncIterable[bytes]) -> bytes:
        return b"".join([part async for part in parts])

    assert response.status_code == 200
    return async_to_sync(read)(response.streaming_content).decode().splitlines()


def log() -> list[tuple[str, str | None, int, str]]:
    """Who did what to which stream, oldest first."""
    entries = LogEntry.objects.order_by("pk").values_list(
        "user__username", "object_id", "action_flag", "change_message"
    )
    return list(entries)


@pytest.mark.parametrize(
    ("permissions", "offered"),
    [
        (("view_stream",), []),
        (("view_stream", "view_stream_content"), []),
        (("view_stream", "export_stream"), ["export_csv", "export_jsonl", "export_deltas"]),
        (READER, ["export_csv", "export_jsonl", "export_deltas", "export_messages"]),
    ],
    ids=["view", "content", "export", "export and content"],
)
def test_exports_are_offered_and_carried_out_as_permissions_say(
    permissions: tuple[str, ...], offered: list[str], staff_client: StaffClient, make_stream: MakeStream
) -> None:
    stream, client = make_stream(messages=[{"role": "user", "content": "What?"}]), staff_client(*permissions)
    page = client.get(LIST + ANY_TIME).content.decode()
    assert re.findall(r'<option value="(\w+)"', page) == offered
    for action in ("export_csv", "export_jsonl", "export_deltas", "export_messages"):
        assert export(client, action, stream).streaming is (action in offered)
    assert len(log()) == len(offered)


def test_ticked_streams_are_a_download_and_in_their_histories(
    staff_client: StaffClient, make_stream: MakeStream
) -> None:
    first, _, third = [make_stream(["tea ", str(number)]) for number in range(3)]
    client = staff_client(*READER)
    response = export(client, "export_jsonl", first, third)
    assert response["Content-Type"] == "application/x-ndjson"
    assert re.fullmatch(r'attachment; filename="streams-\d{8}-\d{6}\.jsonl"', response["Content-Disposition"])
    # In the log before the first byte.
    told = "Exported as JSON lines, with the text."
    assert log() == [("staff", str(third.pk), EXPORTED, told), ("staff", str(first.pk), EXPORTED, told)]
    exported = [json.loads(line) for line in lines_of(response)]
    assert [(line["id"], line["text"]) for line in exported] == [(third.pk, "tea 2"), (first.pk, "tea 0")]
    assert told in client.get(reverse("admin:generation_stream_history", args=[first.pk])).content.decode()
    # The admin's first page lists what one did lately.
    assert client.get(reverse("admin:index")).status_code == 200


@pytest.mark.parametrize("across", ["1", "true", "on"])
def test_the_whole_list_is_exported_with_its_filters_when_all_pages_are_chosen(
    across: str, staff_client: StaffClient, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamAdmin, "list_per_page", 2)
    wanted = [make_stream(source="page") for _ in range(5)][::-1]
    make_stream(source="api")
    client = staff_client(*READER)
    query = f"&source=page&before={wanted[1].pk}"
    response = export(client, "export_csv", *wanted[2:4], query=query, across=across)
    assert log() == [
        ("staff", None, EXPORTED, f"Exported the list as CSV, with the text: {ANY_TIME}{query}"),
    ]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines_of(response)))))
    assert [row["id"] for row in rows] == [str(stream.pk) for stream in wanted]
    assert client.get(reverse("admin:index")).status_code == 200


def test_all_that_a_search_finds_is_exported_when_all_pages_are_chosen(
    staff_client: StaffClient, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamAdmin, "list_per_page", 2)
    monkeypatch.setattr(stream_search, "FIRST_WINDOW", 2)
    streams = [make_stream(["chai" if number % 3 else "tea"]) for number in range(12)][::-1]
    response = export(staff_client(*READER), "export_csv", *streams[:2], query="&q=chai", across="1")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines_of(response)))))
    assert [row["id"] for row in rows] == [str(stream.pk) for stream in streams if stream.text == "chai"]


@pytest.mark.parametrize(("per_page", "offered"), [(2, True), (3, False)])
def test_all_pages_can_be_chosen_when_there_are_several(
    per_page: int, offered: bool, admin_client: Client, make_stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamAdmin, "list_per_page", per_page)
    for _ in range(3):
        make_stream()
    page = admin_client.get(LIST + ANY_TIME).content.decode()
    assert ("Select all streams of this list" in page) is offered
    assert f'data-actions-icnt="{per_page}"' in page


@pytest.mark.parametrize("action", ["export_csv", "export_jsonl", "export_deltas"])
def test_figures_are_exported_when_staff_may_not_see_content(
    action: str, staff_client: StaffClient, make_stream: MakeStream
) -> None:
    stream = make_stream(
        ["the-words"], messages=[{"role": "user", "content": "the-words"}], parameters={"stop": ["the-words"]},
        stop_string="the-words", ttft_visible_s=0.25,
    )  # fmt: skip
    lines = lines_of(export(staff_client("view_stream", "export_stream"), action, stream))
    assert lines
    assert "the-words" not in "".join(lines)
    assert log()[0][3].endswith(", without the text.")


def test_deltas_and_messages_are_lines_of_their_own(staff_client: StaffClient, make_stream: MakeStream) -> None:
    stream = make_stream(["tea ", "time"], messages=[{"role": "user", "content": "What?"}])
    client = staff_client(*READER)
    deltas = [json.loads(line) for line in lines_of(export(client, "export_deltas", stream))]
    assert [(delta["stream"], delta["seq"], delta["text"]) for delta in deltas] == [
        (stream.pk, 1, "tea "),
        (stream.pk, 2, "time"),
    ]
    (item,) = lines_of(export(client, "export_messages", stream))
    assert json.loads(item) == {"id": str(stream.pk), "messages": [{"role": "user", "content": "What?"}]}


_MANY = """
from django.utils import timezone
from generation.models import Stream
Stream.objects.bulk_create(
    Stream(wire_id=f"chatcmpl-{n}", source="api", model="m", backend="default", state="done", stop_reason="eos",
           started_at=timezone.now(), text="x" * 40_000)
    for n in range(1000)
)
"""


@pytest.mark.servers
def test_streams_are_read_no_faster_than_the_download_takes_them(tmp_path: Path) -> None:
    with live_server(tmp_path) as server:
        server.manage("shell", "--no-imports", "-c", _MANY)
        token = "a" * 32
        cookies = {"sessionid": staff_sessions(server)["admin"], "csrftoken": token}
        fields = {"action": "export_jsonl", "index": "0", "select_across": "1", "_selected_action": "1"}
        with (
            httpx2.Client(base_url=server.base_url, cookies=cookies, timeout=30) as client,
            client.stream("POST", LIST, data={**fields, "csrfmiddlewaretoken": token}) as response,
        ):
            lines = response.iter_lines()
            assert json.loads(next(lines))["text"] == "x" * 40_000
            # The database is free, another request is answered, and what was not read yet is not in memory.
            server.execute("DELETE FROM generation_stream")
            assert server.get("/healthz")[0] == 200
            read = 1 + sum(1 for _ in lines)
        # What the sockets hold and a page or two.
        assert 1 <= read < 500
        assert len(server.rows("SELECT * FROM django_admin_log WHERE action_flag = ?", EXPORTED)) == 1
