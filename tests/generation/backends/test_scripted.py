from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from generation.backends.base import BackendState
from generation.backends.scripted import ScriptedBackend
from generation.exceptions import EngineError, InvalidRequestError, UpstreamError
from generation.output import HoldCause, Outcome, StopReason, Usage
from tests.generation.backends.asking import WAIT_S, ask, read, text

#: 19 characters, 49 bytes.
CHAI = "आपका चाय ☕ तैयार है"


def scripted(**options: Any) -> ScriptedBackend:
    return ScriptedBackend("test", **{"model": "scripted", **options})


async def test_pieces_come_as_they_are_when_they_are_text() -> None:
    backend = scripted(pieces=["Hello", ", ", "world"])
    stream = await backend.stream(ask())
    deltas = await read(stream)
    assert [delta.text for delta in deltas] == ["Hello", ", ", "world"]
    assert stream.outcome == Outcome(stop_reason=StopReason.EOS)
    assert (stream.token_ids, len(stream.token_times), backend.pieces_made, backend.active) == (None, 3, 3, 0)
    assert stream.begun_at is not None
    assert stream.begun_at <= stream.token_times[0]


async def test_characters_stay_whole_when_texts_are_cut_into_bytes() -> None:
    stream = await scripted(texts=[CHAI], byte_pieces=5).stream(ask())
    deltas = await read(stream)
    assert [delta.text for delta in deltas] == ["आ", "पक", "ा ", "चा", "य ", "☕ त", "ै", "या", "र ", "है"]
    assert deltas[1].holds[0].cause is HoldCause.UTF8
    assert deltas[1].holds[0].size == 2


@pytest.mark.parametrize("size", range(1, 8))
async def test_text_is_unharmed_when_pieces_have_any_size(size: int) -> None:
    assert text(await read(await scripted(texts=[CHAI], byte_pieces=size).stream(ask()))) == CHAI


async def test_cuts_repeat_when_the_seed_is_the_same() -> None:
    async def cuts(seed: int) -> list[str]:
        return [
            delta.text
            for delta in await read(await scripted(texts=[CHAI], byte_pieces=(1, 5), seed=seed).stream(ask()))
        ]

    assert await cuts(3) == await cuts(3)
    assert await cuts(3) != await cuts(4)


async def test_texts_take_turns_when_there_are_several() -> None:
    backend = scripted(texts=["one", "two"])
    assert [text(await read(await backend.stream(ask()))) for _ in range(3)] == ["one", "two", "one"]


async def test_answer_is_the_file_when_one_is_given(tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text(CHAI, encoding="utf-8")
    assert text(await read(await scripted(text_file=tmp_path / "answer.txt").stream(ask()))) == CHAI


async def test_answer_is_the_question_when_it_echoes() -> None:
    assert text(await read(await scripted(echo=True).stream(ask(CHAI)))) == CHAI


async def test_answer_comes_again_when_repeated() -> None:
    assert text(await read(await scripted(pieces=["a", "b"], repeat=3).stream(ask()))) == "ababab"


@pytest.mark.parametrize(
    ("sampling", "shown", "reason", "stop", "made"),
    [
        pytest.param({"max_tokens": 2}, "one two ", StopReason.LENGTH, None, 2, id="length"),
        pytest.param({"max_tokens": 4}, "one two three four", StopReason.LENGTH, None, 4, id="length, exactly"),
        pytest.param({"max_tokens": 5}, "one two three four", StopReason.EOS, None, 4, id="length, not reached"),
        pytest.param({"stop": ("thr",)}, "one two ", StopReason.STOP_STRING, "thr", 3, id="stop string"),
        pytest.param({"stop": ("o thr",)}, "one tw", StopReason.STOP_STRING, "o thr", 3, id="stop across pieces"),
        pytest.param(
            {"stop": ("thr",), "include_stop": True}, "one two thr", StopReason.STOP_STRING, "thr", 3, id="stop kept"
        ),
        pytest.param(
            {"stop": ("three ",), "max_tokens": 3}, "one two ", StopReason.STOP_STRING, "three ", 3, id="both"
        ),
        pytest.param({"stop": ("fourth",)}, "one two three four", StopReason.EOS, None, 4, id="no stop after all"),
    ],
)
async def test_answer_ends_when(
    sampling: dict[str, Any], shown: str, reason: StopReason, stop: str | None, made: int
) -> None:
    backend = scripted(pieces=["one ", "two ", "three ", "four"], prompt_tokens=7)
    stream = await backend.stream(ask(**sampling))
    assert text(await read(stream)) == shown
    assert stream.outcome == Outcome(
        stop_reason=reason, stop_string=stop, usage=Usage(prompt_tokens=7, completion_tokens=made)
    )
    assert backend.pieces_made == made


@pytest.mark.parametrize("fail_at", [0, 1, 3], ids=["at once", "in the middle", "at the end"])
async def test_error_is_raised_after_the_pieces_when_told_to_fail(fail_at: int) -> None:
    backend = scripted(pieces=["a", "b", "c"], fail_at=fail_at)
    stream = await backend.stream(ask())
    assert [(await anext(stream)).text for _ in range(fail_at)] == ["a", "b", "c"][:fail_at]
    with pytest.raises(EngineError, match="The script fails here"):
        await anext(stream)
    assert (stream.outcome, backend.pieces_made, backend.active) == (None, fail_at, 0)


@pytest.mark.parametrize(
    ("name", "error"), [("UpstreamError", UpstreamError), ("ZeroDivisionError", ZeroDivisionError)]
)
async def test_error_is_of_the_named_class_when_told_to_fail(name: str, error: type[Exception]) -> None:
    stream = await scripted(pieces=["a"], fail_at=0, error=name).stream(ask())
    with pytest.raises(error):
        await anext(stream)


async def test_pieces_keep_their_pace_when_delays_are_set() -> None:
    stream = await scripted(pieces=["a", "b", "c"], first_delay_s=0.05, delay_s=0.02).stream(ask())
    await read(stream)
    assert stream.begun_at is not None
    a, b, c = (made_at - stream.begun_at for made_at in stream.token_times)
    assert a >= 0.05
    assert b >= 0.07
    assert c >= 0.09


async def test_others_run_when_there_are_no_delays() -> None:
    backend = scripted(pieces=["x"], repeat=50)
    order: list[int] = []

    async def reader(number: int) -> None:
        stream = await backend.stream(ask())
        while await anext(stream, None):
            order.append(number)

    await asyncio.gather(reader(0), reader(1))
    assert order[:4] == [0, 1, 0, 1]


@pytest.mark.parametrize("read_before", [0, 1, 5])
async def test_no_further_piece_is_made_when_cancelled(read_before: int) -> None:
    backend = scripted(pieces=["x"], repeat=100)
    stream = await backend.stream(ask())
    stops: list[int] = []
    stream.on_stopped = lambda at, made: stops.append(made)
    for _ in range(read_before):
        await anext(stream)
    stream.cancel()
    stream.cancel()
    assert stops == [read_before]
    assert await read(stream) == []
    assert stream.outcome == Outcome(stop_reason=StopReason.CLIENT_STOP)
    assert (backend.pieces_made, backend.active, stops) == (read_before, 0, [read_before])


async def test_wait_is_cut_short_when_cancelled_from_another_thread() -> None:
    stream = await scripted(pieces=["x"], first_delay_s=3600).stream(ask())
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await asyncio.to_thread(stream.cancel)
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, WAIT_S)


async def test_nothing_is_lost_when_a_read_is_cancelled_in_a_wait() -> None:
    stream = await scripted(pieces=["a", "b"], first_delay_s=0.05).stream(ask())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 0.001)
    assert text(await read(stream)) == "ab"


async def test_streams_end_when_the_backend_is_closed() -> None:
    backend = scripted(pieces=["x"], repeat=100)
    stream = await backend.stream(ask())
    await anext(stream)
    assert backend.active == 1
    backend.close()
    assert await read(stream) == []
    assert backend.active == 0


async def test_field_is_refused_when_the_script_cannot_follow_it() -> None:
    backend = scripted(pieces=["x"])
    await backend.stream(ask(asked_for=frozenset({"stop", "max_tokens"})))
    with pytest.raises(InvalidRequestError) as caught:
        await backend.stream(ask(asked_for=frozenset({"temperature"})))
    assert caught.value.param == "temperature"


async def test_backend_is_ready_when_made() -> None:
    assert scripted(pieces=["x"]).health.state is BackendState.READY


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one"),
        ({"pieces": [], "texts": []}, "exactly one"),
        ({"pieces": [], "error": "NoSuchError"}, "must name an exception"),
        ({"pieces": [], "byte_pieces": 0}, "byte_pieces"),
        ({"pieces": [], "byte_pieces": (3, 1)}, "byte_pieces"),
    ],
    ids=["nothing to say", "two things to say", "unknown error", "empty pieces", "range upside down"],
)
def test_options_are_refused_when_they_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scripted(**options)


@pytest.mark.parametrize(
    ("pieces", "stop", "shown"),
    [
        pytest.param(["Hi", " ", "there"], (), [["Hi"], [" "], ["there"]], id="one a delta"),
        pytest.param(
            [b"\xc3", b"\xa9", "!"], (), [["\ufffd", "\ufffd"], ["!"]], id="held until the character is whole"
        ),
        pytest.param(["a", "EN", "D!", "b"], ("END",), [["a"]], id="cut away by a stop string"),
        pytest.param(["aEN", "D", "b"], ("END",), [["aEN"]], id="cut in the middle of a piece"),
        pytest.param(["E", "N"], ("END",), [["E", "N"]], id="held to the end"),
        pytest.param(["ab", "c", "!"], ("abcd", "c!"), [["ab"]], id="held for one stop string, ended by another"),
    ],
)
async def test_each_shown_piece_has_its_log_probability_with_its_text(pieces, stop, shown) -> None:
    deltas = [
        delta async for delta in await scripted(pieces=pieces).stream(ask(stop=stop, logprobs=True, top_logprobs=1))
    ]
    assert [[entry.text for entry in delta.logprobs] for delta in deltas] == shown
    entries = [entry for delta in deltas for entry in delta.logprobs]
    assert all(entry.logprob == 0.0 and [top.data for top in entry.top] == [entry.data] for entry in entries)
