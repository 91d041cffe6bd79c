from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
from django.db import connection

from generation.models import DeltaBatch, Stream
from generation.output import Hold, HoldCause, StopReason, Usage
from generation.recording import Recorder, StreamEnd, get_writer
from generation.recording.writer import Writer
from generation.text import Proof, Verdict


@pytest.fixture
def small_writer():
    """A writer with room for three unsaved deltas, whose thread never gets to store any."""
    writer = Writer(unsaved_deltas=3)
    writer.start = lambda: None  # the thread stays away, as it would behind a database that hangs
    return writer


def deltas_of(stream_id: int) -> list[dict]:
    return [
        delta
        for batch in DeltaBatch.objects.filter(stream_id=stream_id).order_by("first_seq")
        for delta in batch.deltas
    ]


def test_record_holds_everything_when_a_stream_ended(open_row, delta):
    stream_id = open_row()
    recorder = Recorder(stream_id, received_at=100.0)
    recorder.delta(delta("Hel", 0, made_at=100.5), 100.51)
    recorder.delta(delta("lo 🙂", 1, made_at=100.75, holds=(Hold(cause=HoldCause.UTF8, size=3, held_s=0.25),)), 100.76)
    recorder.finish(
        StreamEnd(
            stop_reason=StopReason.STOP_STRING,
            ended_at=101.0,
            stop_string="\n\n",
            usage=Usage(prompt_tokens=7, completion_tokens=3),
            begun_at=100.125,
            token_times=[100.5, 100.625, 100.75],
            token_ids=[4, 5, 6],
            prompt_tokens=7,
            prove=lambda text: Proof(verdict=Verdict.EQUAL, text_sha256=text * 8, reference_sha256="b" * 64),
        )
    )
    assert get_writer().flush()

    row = Stream.objects.values().get(pk=stream_id)
    started_at, ended_at = row["started_at"], row["ended_at"]
    assert (ended_at - started_at).total_seconds() == 1.0
    assert {
        name: row[name] for name in row if name not in ("id", "wire_id", "worker_id", "started_at", "ended_at")
    } == {
        "choice": 0,
        "endpoint": "chat",
        "client_stream_id": None,
        "conversation_id": None,
        "message_id": None,
        "user_id": None,
        "session_key": "",
        "api_key_id": None,
        "source": "api",
        "model": "scripted",
        "backend": "default",
        "parameters": {},
        "messages": [{"role": "user", "content": "Tell me something"}],
        "client_address_class": "",
        "include_usage": False,
        "upstream_id": "",
        "state": "done",
        "finish_reason": "stop",
        "stop_reason": "stop_string",
        "stop_string": "\n\n",
        "ended_by": "model",
        "error": "",
        "error_body": None,
        "log_incomplete": False,
        "text": "Hello 🙂",
        "has_text": True,
        "tool_calls": None,
        "seen_chars": None,
        "proof": "equal",
        "text_sha256": "Hello 🙂" * 8,
        "reference_sha256": "b" * 64,
        "queue_s": 0.125,
        "prefill_s": 0.375,
        "ttft_model_s": 0.5,
        "ttft_visible_s": 0.51,
        "icl_p50_s": 0.25,
        "icl_p95_s": 0.25,
        "icl_max_s": 0.25,
        "itl_p50_s": 0.125,
        "itl_p95_s": 0.125,
        "itl_max_s": 0.125,
        "tpot_s": 0.25,
        "total_s": 1.0,
        "abort_latency_s": None,
        "prompt_tokens": 7,
        "cached_tokens": None,
        "completion_tokens": 3,
        "wasted_tokens": None,
        "delta_count": 2,
        "holds": {"utf8": {"count": 1, "size": 3, "total_s": 0.25, "longest_s": 0.25}},
        "token_ids": [4, 5, 6],
        "token_offsets": [0.5, 0.625, 0.75],
    }
    assert deltas_of(stream_id) == [
        {"text": "Hel", "first_token": 0, "end_token": 1, "made_s": 0.5, "sent_s": 0.51, "holds": []},
        {
            "text": "lo 🙂",
            "first_token": 1,
            "end_token": 2,
            "made_s": 0.75,
            "sent_s": 0.76,
            "holds": [{"cause": "utf8", "size": 3, "held_s": 0.25}],
        },
    ]


def test_no_database_is_touched_when_deltas_and_the_end_are_recorded(open_row, delta):
    recorder = Recorder(open_row(), received_at=0.0)

    def refuse(*arguments: object) -> None:
        raise AssertionError("the hot path reached the database")

    with ExitStack() as stack:
        stack.enter_context(connection.execute_wrapper(refuse))
        for number in range(1000):
            recorder.delta(delta("x", number), float(number))
        assert recorder.text == "x" * 1000
        recorder.finish(StreamEnd(stop_reason=StopReason.EOS, ended_at=1000.0))
        recorder.stopped(1000.0, 1000)
    assert get_writer().flush()


def test_the_first_end_wins_when_a_stream_is_ended_by_many_threads(open_row, stored):
    stream_id = open_row()
    recorder = Recorder(stream_id, received_at=0.0)
    recorder.finish(StreamEnd(stop_reason=StopReason.CLIENT_STOP, ended_at=1.0))
    late = StreamEnd(stop_reason=StopReason.CLIENT_DISCONNECT, ended_at=2.0)
    threads = [threading.Thread(target=recorder.finish, args=[late]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get_writer().flush()
    assert (stored(stream_id).stop_reason, stored(stream_id).ended_by) == ("client_stop", "user")
    assert stored(stream_id).total_s == 1.0


def test_a_delta_after_the_end_is_not_recorded(open_row, stored, delta):
    stream_id = open_row()
    recorder = Recorder(stream_id, received_at=0.0)
    recorder.delta(delta("in time"), 1.0)
    recorder.finish(StreamEnd(stop_reason=StopReason.CLIENT_DISCONNECT, ended_at=1.5))
    recorder.delta(delta(" too late", 1), 2.0)
    assert (recorder.text, recorder.delta_count) == ("in time", 1)
    assert get_writer().flush()
    assert (stored(stream_id).text, stored(stream_id).delta_count) == ("in time", 1)
    assert [delta["text"] for delta in deltas_of(stream_id)] == ["in time"]


def test_tokens_made_after_the_end_stay_out_of_its_lists(open_row, stored):
    stream_id = open_row()
    recorder = Recorder(stream_id, received_at=0.0)
    token_times, token_ids = [1.0], [17]
    recorder.finish(
        StreamEnd(stop_reason=StopReason.CLIENT_DISCONNECT, ended_at=1.5, token_times=token_times, token_ids=token_ids)
    )
    token_times.append(2.0)
    token_ids.append(18)
    assert get_writer().flush()
    assert (stored(stream_id).token_ids, stored(stream_id).token_offsets) == ([17], [1.0])


@pytest.mark.parametrize("order", ["before the end", "after the end", "after the end was stored"])
def test_the_cost_of_an_abort_is_recorded_whenever_generation_stops(open_row, stored, order):
    stream_id = open_row()
    recorder = Recorder(stream_id, received_at=10.0)
    end = StreamEnd(
        stop_reason=StopReason.CLIENT_DISCONNECT,
        ended_at=12.5,
        gone_at=12.0,
        token_times=[11.0, 11.5, 12.25],
        token_ids=[1, 2, 3],
    )
    if order == "before the end":
        recorder.stopped(12.25, 3)
        recorder.finish(end)
    else:
        recorder.finish(end)
        if order == "after the end was stored":
            assert get_writer().flush()
        recorder.stopped(12.25, 3)
    assert get_writer().flush()
    row = stored(stream_id)
    assert (row.state, row.abort_latency_s, row.wasted_tokens, row.completion_tokens) == ("stopped", 0.25, 1, 3)


def test_the_log_ends_and_the_text_goes_on_when_too_many_deltas_wait(open_row, stored, delta, small_writer):
    stream_id = open_row()
    recorder = Recorder(stream_id, received_at=0.0, writer=small_writer)
    for number, letter in enumerate("abcdef"):
        recorder.delta(delta(letter, number), float(number))
    assert (recorder.text, recorder.delta_count, recorder.log_incomplete) == ("abcdef", 6, True)
    recorder.finish(StreamEnd(stop_reason=StopReason.EOS, ended_at=6.0))
    del small_writer.start
    assert small_writer.flush()
    small_writer.close()
    row = stored(stream_id)
    assert (row.state, row.text, row.delta_count, row.log_incomplete) == ("done", "abcdef", 6, True)
    assert [delta["text"] for delta in deltas_of(stream_id)] == ["a", "b", "c"]


def test_streams_share_the_room_for_unsaved_deltas(open_row, delta, small_writer):
    recorders = [Recorder(open_row(), received_at=0.0, writer=small_writer) for _ in range(3)]
    for recorder in recorders:
        recorder.delta(delta("a"), 1.0)
        recorder.delta(delta("b", 1), 2.0)
    assert [recorder.log_incomplete for recorder in recorders] == [True, True, True]


@pytest.mark.parametrize(
    ("pieces", "chars", "tail"),
    [
        pytest.param(["Hello ", "world"], 20, "Hello world", id="all of it"),
        pytest.param(["Hello ", "world"], 11, "Hello world", id="exactly"),
        pytest.param(["Hello ", "world"], 6, "world", id="cut in the text"),
        pytest.param(["नमस्ते ", "दुनि", "या"], 5, "निया", id="cut in a cluster"),
        pytest.param([], 5, "", id="nothing yet"),
    ],
)
def test_tail_begins_with_a_whole_cluster(open_row, delta, pieces, chars, tail):
    recorder = Recorder(open_row(), received_at=0.0)
    for number, piece in enumerate(pieces):
        recorder.delta(delta(piece, number), float(number))
    assert recorder.tail(chars) == tail
