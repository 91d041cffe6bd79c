from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import IntegrityError
from pytest_django import Settings

from generation.backends import backends
from generation.models import Run, Stream
from generation.recording import get_writer
from generation.replay.corpus import BadLine, CorpusFormat, CorpusItem, read_corpus
from generation.replay.runner import CorpusRunner
from generation.request import ChatMessage, GenerationRequest
from generation.streaming import Generation, Origin, begin

pytestmark = pytest.mark.django_db(transaction=True)

SCRIPTED = "generation.backends.scripted.ScriptedBackend"


class Told:
    """A progress that keeps what it is told, and can press Ctrl-C."""

    def __init__(self, *, interrupt_at: int | None = None) -> None:
        self.done = 0
        self.problems: list[tuple[int, str]] = []
        self._interrupt_at = interrupt_at

    def advance(self) -> None:
        self.done += 1
        if self.done == self._interrupt_at:
            signal.raise_signal(signal.SIGINT)

    def problem(self, line_number: int, message: str) -> None:
        self.problems.append((line_number, message))

    def close(self) -> None:
        pass


@pytest.fixture
def run() -> Run:
    return Run.objects.create(name="test", corpus="test.jsonl", model="scripted")


@pytest.fixture
def echo(settings: Settings) -> None:
    settings.GENERATION_BACKENDS = {
        "default": {
            "BACKEND": SCRIPTED,
            "OPTIONS": {"model": "echo", "echo": True, "delay_s": 0.05, "prompt_tokens": 1},
        }
    }


def corpus(*prompts: str, model: str = "default") -> Iterator[CorpusItem | BadLine]:
    return read_corpus([prompt.encode() for prompt in prompts], {"model": model})


def carry_out(run: Run, items: Iterator[CorpusItem | BadLine], progress: Told, *, concurrency: int = 1) -> bool:
    async def work() -> bool:
        return await CorpusRunner(run, items, concurrency=concurrency, progress=progress).run()

    complete = asyncio.run(work())
    assert get_writer().flush(10)
    return complete


def counted(items: Iterator[CorpusItem | BadLine], others: list[int]) -> Iterator[CorpusItem | BadLine]:
    """Pass items on, and note how many answers were under way when each was taken."""
    for item in items:
        others.append(backends["default"].active)
        yield item


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.usefixtures("echo")
def test_each_prompt_has_its_answer_recorded(run: Run, concurrency: int) -> None:
    prompts = [f"prompt number {number}" for number in range(1, 8)]
    progress = Told()
    others: list[int] = []
    assert carry_out(run, counted(corpus(*prompts), others), progress, concurrency=concurrency) is True
    items = run.items.select_related("stream")
    assert [(item.position, item.item_id, item.error) for item in items] == [(n, str(n), "") for n in range(1, 8)]
    streams = [item.stream for item in items if item.stream]
    assert [stream.text for stream in streams] == prompts
    assert {(stream.source, stream.state, stream.model) for stream in streams} == {("replay", "done", "echo")}
    assert (progress.done, progress.problems) == (7, [])
    assert max(others) <= concurrency - 1
    ends = [stream.ended_at or stream.started_at for stream in streams]
    overlapping = [other for end, other in zip(ends, streams[1:], strict=False) if other.started_at < end]
    assert bool(overlapping) is (concurrency > 1)


def test_a_bad_line_does_not_cost_the_others(run: Run) -> None:
    lines = [b'{"id": "a", "prompt": "hi"}', b"{", b'{"id": "c", "prompt": "hi", "seed": 1}', b'{"prompt": "hi"}']
    progress = Told()
    assert carry_out(run, read_corpus(lines, {"model": "default"}, CorpusFormat.JSONL), progress) is True
    unsupported = "'seed' is not supported by the model 'default'. Leave it out, or choose another model."
    assert [number for number, _ in progress.problems] == [2, 3]
    assert progress.problems[1] == (3, unsupported)
    rows = [(item.item_id, item.error == "", item.stream is not None) for item in run.items.all()]
    assert rows == [("a", True, True), ("2", False, False), ("c", False, False), ("4", True, True)]
    assert run.items.get(position=3).error == unsupported
    assert progress.done == 4


def test_the_item_has_both_its_stream_and_its_error_when_an_answer_fails(run: Run) -> None:
    progress = Told()
    carry_out(run, corpus("one", "two", model="failing"), progress, concurrency=2)
    failure = "The script fails here, after 2 pieces."
    assert sorted(progress.problems) == [(1, failure), (2, failure)]
    for item in run.items.select_related("stream"):
        assert item.error == failure
        assert item.stream is not None
        assert (item.stream.state, item.stream.text) == ("failed", "one two ")


async def carry_out_beside_another(
    run: Run, items: Iterator[CorpusItem | BadLine], progress: Told, *, after_s: float, do: Callable[[Generation], None]
) -> bool:
    """Take a place with a stream of one's own; ``after_s`` seconds later, ``do`` something with it."""
    request = GenerationRequest(model="slow", messages=(ChatMessage(role="user", content="endless"),))
    other = await begin(request, Origin(source="api"), received_at=time.monotonic())
    other.begin()
    asyncio.get_running_loop().call_later(after_s, do, other)
    try:
        return await CorpusRunner(run, items, concurrency=1, progress=progress).run()
    finally:
        other.close()


def test_an_item_waits_for_a_place_when_all_are_taken(run: Run, settings: Settings) -> None:
    settings.STREAMSITE_MAX_STREAMS = 1
    progress = Told()
    work = carry_out_beside_another(run, corpus("hi"), progress, after_s=0.1, do=Generation.close)
    assert asyncio.run(work) is True
    assert get_writer().flush(10)
    assert progress.problems == []
    assert [item.stream.text for item in run.items.select_related("stream") if item.stream] == ["Hello, world!"]


def test_an_item_waits_no_longer_when_ctrl_c_is_pressed(run: Run, settings: Settings) -> None:
    settings.STREAMSITE_MAX_STREAMS = 1
    progress = Told()
    work = carry_out_beside_another(
        run, corpus("hi"), progress, after_s=0.1, do=lambda _: signal.raise_signal(signal.SIGINT)
    )
    assert asyncio.run(work) is False
    assert progress.problems == []
    assert not run.items.exists()


def test_the_run_ends_and_no_stream_is_left_running_when_a_row_cannot_be_written(run: Run) -> None:
    run.items.create(position=1, item_id="in the way")
    with pytest.raises(IntegrityError):
        carry_out(run, corpus("one", "two", "three", model="slow"), Told(), concurrency=2)
    assert get_writer().flush(10)
    assert set(Stream.objects.values_list("stop_reason", flat=True)) == {"client_disconnect"}


def test_what_was_said_is_kept_when_ctrl_c_is_pressed(run: Run) -> None:
    progress = Told(interrupt_at=1)
    items = list(corpus(*["endless"] * 8, model="slow"))
    items.insert(2, BadLine(line_number=9, error="This one ends at once, and Ctrl-C is pressed."))
    assert carry_out(run, iter(items), progress, concurrency=3) is False
    ends = list(Stream.objects.values_list("state", "stop_reason", "ended_by"))
    # The worker of the bad line may have taken one more item before the signal reached the event loop.
    assert ends in ([("stopped", "client_stop", "user")] * 2, [("stopped", "client_stop", "user")] * 3)
    assert run.items.count() == progress.done == len(ends) + 1
