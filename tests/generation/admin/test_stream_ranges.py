"""What the stream page's script reads, through the addresses it reads it from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from generation.backends import backends
from generation.models import Stream
from generation.replay.stored_frames import stored_frames
from tests.live_server import wait_until
from tests.tiny_model import build_tiny_model, byte_level_tokenizer

MakeStream = Callable[..., Stream]


def address(name: str, stream: Stream, query: str = "") -> str:
    return reverse(f"admin:generation_stream_{name}", args=[stream.pk]) + query


def read(client: Client, name: str, stream: Stream, query: str = "") -> Any:
    response = client.get(address(name, stream, query))
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    return response.json()


class TestDeltas:
    def test_deltas_come_in_columns_when_read(self, admin_client: Client, make_stream: MakeStream) -> None:
        held = [{"cause": "utf8", "size": 2, "held_s": 0.25}, {"cause": "stop", "size": 4, "held_s": None}]
        piece = {"first_token": 1, "end_token": 4, "made_s": 0.9, "sent_s": 1.0, "holds": held}
        stream = make_stream(["Hi ", {"text": "👩\u200d\ud800", **piece}])
        assert read(admin_client, "deltas", stream) == {
            "next_seq": None,
            "running": False,
            "seq": [1, 2],
            "sent_s": [0.1, 1.0],
            "made_s": [0.1, 0.9],
            "first_token": [0, 1],
            "end_token": [1, 4],
            "chars": [3, 3],
            "holds": [[2, "utf8", 2, 0.25], [2, "stop", 4, None]],
            "text": ["Hi ", "👩\u200d\ud800"],
            "tool_calls": [],
        }

    def test_pieces_of_tool_calls_come_with_their_deltas_when_there_are_some(
        self, admin_client: Client, make_stream: MakeStream
    ) -> None:
        pieces = [
            [{"index": 0, "id": "call_1", "name": "weather", "arguments": ""}],
            [{"index": 0, "id": None, "name": None, "arguments": '{"city"'}],
        ]
        common = {"text": "", "first_token": 0, "end_token": 1, "made_s": None, "sent_s": 0.1, "holds": []}
        stream = make_stream([{**common, "tool_calls": each} for each in pieces])
        columns = read(admin_client, "deltas", stream)
        assert columns["text"] == ["", ""]
        assert columns["tool_calls"] == [[1, "weather", ""], [2, "", '{"city"']]

    @pytest.mark.parametrize(
        ("query", "seqs", "next_seq"),
        [
            pytest.param("?first_seq=3&last_seq=7", [3, 4, 5, 6, 7], 8, id="in the middle of batches"),
            pytest.param("?first_seq=3&last_seq=4", [3, 4], 5, id="to the end of a batch"),
            pytest.param("?first_seq=9", [9, 10], None, id="to the end"),
            pytest.param("?first_seq=4&last_seq=4", [4], 5, id="one"),
            pytest.param("?first_seq=11", [], None, id="behind the end"),
            pytest.param("?first_seq=0&last_seq=1", [1], 2, id="from nothing"),
            pytest.param("?first_seq=x&last_seq=-1", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], None, id="nonsense"),
        ],
    )
    def test_a_range_is_cut_exactly_when_asked_for(
        self, admin_client: Client, make_stream: MakeStream, query: str, seqs: list[int], next_seq: int | None
    ) -> None:
        columns = read(admin_client, "deltas", make_stream([str(n) for n in range(1, 11)]), query)
        assert (columns["seq"], columns["next_seq"]) == (seqs, next_seq)
        assert columns["text"] == [str(seq) for seq in seqs]

    def test_a_hole_is_left_out_when_batches_are_missing(self, admin_client: Client, make_stream: MakeStream) -> None:
        stream = make_stream([str(n) for n in range(1, 13)])
        stream.batches.filter(first_seq=5).delete()
        columns = read(admin_client, "deltas", stream, "?first_seq=3&last_seq=10")
        assert (columns["seq"], columns["next_seq"]) == ([3, 4, 9, 10], 11)

    def test_ten_thousand_come_in_ranges_when_the_stream_is_long(
        self, admin_client: Client, make_stream: MakeStream, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        stream = make_stream([f"{number} " for number in range(10_000)], batch_size=25)
        read(admin_client, "deltas", stream)  # logs the view
        seqs: list[int] = []
        first: int | None = 1
        while first is not None:
            # Session, user, stream, the logged view, the batch to begin with, batches, the batch to go on with.
            with django_assert_num_queries(7):
                columns = read(admin_client, "deltas", stream, f"?first_seq={first}")
            assert len(columns["seq"]) == 2500
            seqs += columns["seq"]
            first = columns["next_seq"]
        assert seqs == list(range(1, 10_001))


class TestFrames:
    def test_frames_are_the_bytes_that_were_sent_when_read(self, admin_client: Client, make_stream: MakeStream) -> None:
        stream = make_stream(["é", "\u2028"], total_s=1.5)
        frames = read(admin_client, "frames", stream)
        assert frames["next"] is None
        assert [(at_s, text.encode()) for at_s, text in frames["frames"]] == list(
            stored_frames(stream, include_usage=False)
        )
        assert frames["frames"][1][1].endswith('"delta":{"content":"\\u00e9"},"finish_reason":null}]}\n\n')

    def test_frames_go_on_where_they_ended_when_there_are_many(
        self, admin_client: Client, make_stream: MakeStream
    ) -> None:
        stream = make_stream(["a"] * 600)
        first = read(admin_client, "frames", stream)
        second = read(admin_client, "frames", stream, f"?first={first['next']}")
        # The role frame before the deltas, the last chunk and [DONE] behind them.
        assert (len(first["frames"]), first["next"]) == (500, 500)
        assert (len(second["frames"]), second["next"]) == (103, None)

    def test_the_fixture_is_python_with_the_same_bytes_when_copied(
        self, admin_client: Client, make_stream: MakeStream
    ) -> None:
        stream = make_stream(["'\"\\", "né"], total_s=1.5)
        response = admin_client.get(address("fixture", stream))
        assert response["Content-Type"] == "text/plain; charset=utf-8"
        names: dict[str, Any] = {}
        exec(response.content.decode(), names)
        assert names["FRAMES"] == list(stored_frames(stream, include_usage=False))


class TestTokens:
    def test_ids_come_with_times_when_there_is_no_tokenizer(
        self, admin_client: Client, make_stream: MakeStream
    ) -> None:
        stream = make_stream(token_ids=[7, 8], token_offsets=[0.25, 0.5])
        assert read(admin_client, "tokens", stream) == {
            "next": None, "ids": [7, 8], "made_s": [0.25, 0.5], "texts": None,
        }  # fmt: skip

    def test_nothing_comes_when_the_backend_has_no_tokens(self, admin_client: Client, make_stream: MakeStream) -> None:
        stream = make_stream(backend="gone")
        assert read(admin_client, "tokens", stream) == {"next": None, "ids": [], "made_s": [], "texts": None}

    def test_tokens_go_on_where_they_ended_when_there_are_many(
        self, admin_client: Client, make_stream: MakeStream
    ) -> None:
        stream = make_stream(token_ids=list(range(1001)), token_offsets=[0.001 * n for n in range(1001)])
        assert read(admin_client, "tokens", stream)["next"] == 1000
        assert read(admin_client, "tokens", stream, "?first=1000")["ids"] == [1000]


NAMES = ["deltas", "frames", "fixture", "tokens"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "deltas"])
def test_content_is_refused_when_staff_may_only_see_figures(
    name: str, staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    assert staff_client("view_stream").get(address(name, make_stream())).status_code == 403
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("name", NAMES)
def test_content_comes_when_staff_have_the_permission(
    name: str, staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    client = staff_client("view_stream", "view_stream_content")
    assert client.get(address(name, make_stream())).status_code == 200
    assert LogEntry.objects.count() == 1


@pytest.mark.parametrize("name", NAMES)
def test_ranges_are_refused_when_staff_may_not_see_streams(
    name: str, staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    assert staff_client("view_stream_content").get(address(name, make_stream())).status_code == 403


@pytest.mark.parametrize("name", NAMES)
def test_ranges_ask_for_a_login_when_the_visitor_is_not_staff(name: str, make_stream: MakeStream) -> None:
    assert Client().get(address(name, make_stream()))["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("name", NAMES)
def test_there_is_nothing_when_there_is_no_such_stream(name: str, admin_client: Client) -> None:
    assert admin_client.get(f"/admin/generation/stream/999999/{name}/").status_code == 404
    assert admin_client.get(f"/admin/generation/stream/{10**30}/{name}/").status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_ranges_are_only_read_when_asked_for(name: str, admin_client: Client, make_stream: MakeStream) -> None:
    assert admin_client.post(address(name, make_stream())).status_code == 405


def test_deltas_have_lengths_and_no_text_when_staff_may_only_see_figures(
    staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    columns = read(staff_client("view_stream"), "deltas", make_stream(["Hel", "lo"]))
    assert "text" not in columns
    assert columns["chars"] == [3, 2]
    assert not LogEntry.objects.exists()


def test_tokens_are_spelled_when_the_backends_tokenizer_is_loaded(
    tmp_path: Path, settings: Any, admin_client: Client, make_stream: MakeStream
) -> None:
    model = build_tiny_model(tmp_path)
    settings.GENERATION_BACKENDS = {
        "default": {
            "BACKEND": "generation.backends.local.LocalBackend",
            "OPTIONS": {"model": str(model), "threads": 1, "weights": "f32"},
        }
    }
    backend = backends["default"]
    name = backend.models()[0].id
    ids = byte_level_tokenizer().encode("Hé").ids
    stream = make_stream(model=name, token_ids=ids, token_offsets=[0.1, 0.2, 0.3])
    assert read(admin_client, "tokens", stream)["texts"] is None
    backend.start()
    wait_until(lambda: backend.spell([]) is not None, what="the tokenizer to load")
    assert read(admin_client, "tokens", stream)["texts"] == [{"text": "H"}, {"hex": "c3"}, {"hex": "a9"}]
    # Another model's ids would be spelled wrongly.
    assert read(admin_client, "tokens", make_stream(model="other", token_ids=[1]))["texts"] is None
