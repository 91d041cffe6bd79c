"""The engine's promises, over a runner whose steps are counted: no model, no torch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from generation.engine.base import EngineState, RunnerLostError
from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenReader
from generation.engine.torch_engine import TorchEngine
from generation.exceptions import (
    BackendUnavailableError,
    EngineError,
    GenerationTimeoutError,
    InvalidRequestError,
    RateLimitError,
    ServerShutdownError,
)
from generation.output import StopReason, TokenOutput
from generation.request import SamplingParams
from tests.generation.engine.stepping_runner import PLENTY, WAIT_S, SteppingRunner

MakeEngine = Callable[..., TorchEngine]


@pytest.fixture
def make_engine() -> Iterator[MakeEngine]:
    engines: list[tuple[TorchEngine, SteppingRunner]] = []

    def make(runner: SteppingRunner, *, start: bool = True, **options: Any) -> TorchEngine:
        engine = TorchEngine(options.pop("load", lambda: runner), **options)
        engines.append((engine, runner))
        if start:
            engine.start()
        return engine

    yield make
    for engine, runner in engines:
        runner.allow(PLENTY)
        engine.close()


def sequence(*, prompt: int = 3, max_tokens: int | None = 5, **arguments: Any) -> Sequence:
    return Sequence(
        prompt_ids=list(range(prompt)),
        sampling=SamplingParams(max_tokens=max_tokens),
        end_ids=frozenset(),
        reader=TokenReader(),
        **arguments,
    )


async def outputs(sequence: Sequence) -> list[TokenOutput]:
    """Everything up to and with the last output."""
    arrived: list[TokenOutput] = []
    async with asyncio.timeout(WAIT_S):
        while not arrived or arrived[-1].stop_reason is None:
            arrived += await sequence.reader.read()
    return arrived


def ids(outputs: list[TokenOutput]) -> list[int | None]:
    return [output.token_id for output in outputs]


async def test_tokens_come_in_order_with_rising_times_when_a_sequence_runs(make_engine: MakeEngine) -> None:
    engine = make_engine(SteppingRunner())
    tested = sequence()
    engine.submit(tested)
    arrived = await outputs(tested)
    assert ids(arrived) == [100, 101, 102, 103, 104]
    assert [output.stop_reason for output in arrived] == [None] * 4 + [StopReason.LENGTH]
    times = [output.made_at for output in arrived]
    assert times == sorted(times)
    assert tested.begun_at is not None
    assert tested.begun_at <= times[0]
    assert engine.active == 0


async def test_context_ends_the_sequence_when_no_max_tokens_is_set(make_engine: MakeEngine) -> None:
    tested = sequence(prompt=6, max_tokens=None)
    make_engine(SteppingRunner(context_length=10)).submit(tested)
    arrived = await outputs(tested)
    assert (ids(arrived), arrived[-1].stop_reason) == ([100, 101, 102, 103], StopReason.CONTEXT)


async def test_sequences_take_turns_when_several_run(make_engine: MakeEngine) -> None:
    runner = SteppingRunner()
    engine = make_engine(runner, start=False)
    a, b = sequence(prompt=1, max_tokens=4), sequence(prompt=1, max_tokens=4)
    engine.submit(a)
    engine.submit(b)
    engine.start()
    await outputs(a)
    await outputs(b)
    turns = ["ab"[stepped is b] for stepped, _ in runner.steps]
    assert "".join(turns) == "abababab"


async def test_running_sequence_waits_for_one_chunk_at_most_when_a_long_prompt_comes(make_engine: MakeEngine) -> None:
    runner = SteppingRunner()
    engine = make_engine(runner, start=False, prefill_chunk=4)
    short, long = sequence(prompt=1, max_tokens=4), sequence(prompt=10, max_tokens=1)
    engine.submit(short)
    engine.submit(long)
    engine.start()
    await outputs(short)
    await outputs(long)
    turns = [("short" if stepped is short else "long", len(token_ids)) for stepped, token_ids in runner.steps]
    assert turns == [
        ("short", 1),
        ("short", 1),
        ("long", 4),
        ("short", 1),
        ("long", 4),
        ("short", 1),
        ("long", 2),
    ]


@pytest.mark.parametrize("steps_before", range(7), ids=lambda n: f"after {n} steps")
async def test_no_further_step_is_made_when_cancelled(make_engine: MakeEngine, steps_before: int) -> None:
    # Three chunks of prompt, then decoding: the cancel falls into each phase in turn.
    runner = SteppingRunner(allowed=0)
    engine = make_engine(runner, prefill_chunk=4)
    stopped: list[int] = []
    tested = sequence(prompt=12, max_tokens=50, on_stopped=lambda at, made: stopped.append(made))
    engine.submit(tested)
    runner.allow(steps_before)
    runner.wait_until_entered(steps_before + 1)
    engine.cancel(tested)
    runner.allow()
    arrived = await outputs(tested)
    assert arrived[-1].stop_reason is StopReason.CLIENT_STOP
    assert len(runner.steps) == steps_before + 1  # the one it was in, and none after
    tokens = max(0, steps_before - 1)  # that step completes a token from the third on
    assert len([token_id for token_id in ids(arrived) if token_id is not None]) == tokens
    assert (stopped, runner.released, engine.active) == ([tokens], [tested], 0)


async def test_others_go_on_when_one_is_cancelled(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(allowed=0)
    engine = make_engine(runner)
    kept, dropped = sequence(), sequence(max_tokens=400)
    engine.submit(kept)
    engine.submit(dropped)
    runner.wait_until_entered(1)
    engine.cancel(dropped)
    runner.allow()
    assert ids(await outputs(kept)) == [100, 101, 102, 103, 104]
    assert (await outputs(dropped))[-1].stop_reason is StopReason.CLIENT_STOP


async def test_queued_sequence_never_runs_when_cancelled(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(allowed=0)
    engine = make_engine(runner, max_sequences=1)
    running, queued = sequence(), sequence()
    engine.submit(running)
    runner.wait_until_entered(1)
    engine.submit(queued)
    engine.cancel(queued)
    assert ids(await outputs(queued)) == [None]
    assert (queued.begun_at, engine.active) == (None, 1)
    runner.allow()
    await outputs(running)
    assert queued not in [stepped for stepped, _ in runner.steps]


async def test_queued_sequence_never_begins_when_cancelled_as_its_turn_comes(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(allowed=0)
    engine = make_engine(runner, start=False, max_sequences=1)
    running, queued = sequence(prompt=1, max_tokens=2), sequence()
    engine.submit(running)
    engine.submit(queued)
    engine.start()
    runner.allow(1)
    runner.wait_until_entered(2)
    engine.cancel(queued)
    runner.allow()
    assert ids(await outputs(queued)) == [None]
    assert queued.begun_at is None


async def test_no_further_step_is_made_when_cancelled_during_the_step_of_another(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(allowed=0)
    engine = make_engine(runner, start=False)
    kept, dropped = sequence(prompt=1), sequence(prompt=1)
    engine.submit(kept)
    engine.submit(dropped)
    engine.start()
    runner.allow(2)  # a step for each; the third is the first of the next round
    runner.wait_until_entered(3)
    engine.cancel(dropped)
    runner.allow()
    await outputs(kept)
    assert [stepped for stepped, _ in runner.steps].count(dropped) == 1


async def test_sequence_ends_at_once_when_cancelled_while_the_model_loads() -> None:
    loaded = threading.Event()
    runner = SteppingRunner()

    def load() -> SteppingRunner:
        loaded.wait(WAIT_S)
        return runner

    engine = TorchEngine(load)
    engine.start()
    tested = sequence()
    engine.submit(tested)
    assert engine.state is EngineState.LOADING
    engine.cancel(tested)
    assert (await outputs(tested))[-1].stop_reason is StopReason.CLIENT_STOP
    loaded.set()
    engine.close()
    assert runner.steps == []


async def test_cancel_does_nothing_when_repeated_or_late(make_engine: MakeEngine) -> None:
    engine = make_engine(SteppingRunner())
    stops: list[float] = []
    tested = sequence(on_stopped=lambda at, made: stops.append(at))
    engine.submit(tested)
    arrived = await outputs(tested)
    engine.cancel(tested)
    engine.cancel(tested)
    assert (len(stops), stops[0], engine.active) == (1, arrived[-1].made_at, 0)


@pytest.mark.parametrize("failing_step", [0, 1, 2, 5], ids=["prompt", "prompt's end", "first decode", "later"])
async def test_only_one_sequence_ends_when_its_step_fails(make_engine: MakeEngine, failing_step: int) -> None:
    runner = SteppingRunner(failures={failing_step: RuntimeError("out of memory\nat line 7")})
    engine = make_engine(runner, prefill_chunk=2)
    failing = sequence(max_tokens=50)
    engine.submit(failing)
    arrived = await outputs(failing)
    assert arrived[-1].stop_reason is StopReason.ENGINE_ERROR
    assert isinstance(failing.error, EngineError)
    assert failing.error.message == "The model failed: RuntimeError: out of memory"
    assert (runner.released, engine.active, engine.state) == ([failing], 0, EngineState.READY)
    healthy = sequence()
    engine.submit(healthy)
    assert ids(await outputs(healthy)) == [100, 101, 102, 103, 104]


async def test_neighbours_finish_when_one_fails(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(failures={3: ValueError("bad")})
    engine = make_engine(runner, start=False)
    a, b = sequence(prompt=1), sequence(prompt=1)
    engine.submit(a)
    engine.submit(b)
    engine.start()
    ends = {(await outputs(a))[-1].stop_reason, (await outputs(b))[-1].stop_reason}
    assert ends == {StopReason.ENGINE_ERROR, StopReason.LENGTH}


async def test_only_the_guilty_ends_when_a_step_of_many_fails(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(max_batch=4)
    engine = make_engine(runner, start=False)
    a, guilty, b = sequence(prompt=1), sequence(prompt=1), sequence(prompt=1)
    runner.guilty = guilty
    for submitted in (a, guilty, b):
        engine.submit(submitted)
    engine.start()
    assert ids(await outputs(a)) == ids(await outputs(b)) == [100, 101, 102, 103, 104]
    assert (await outputs(guilty))[-1].stop_reason is StopReason.ENGINE_ERROR
    assert runner.released.count(guilty) == 1
    # The prompts; the first decode step, which fails; each alone; the others together.
    assert runner.batches == [3, 3, 1, 1, 1, 2, 2, 2]


async def test_sequences_take_their_steps_together_when_the_runner_takes_several(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(max_batch=4)
    engine = make_engine(runner, start=False)
    both = sequence(prompt=1, max_tokens=4), sequence(prompt=1, max_tokens=4)
    for submitted in both:
        engine.submit(submitted)
    engine.start()
    for submitted in both:
        assert ids(await outputs(submitted)) == [100, 101, 102, 103]
    assert runner.batches == [2, 2, 2, 2]


async def test_prompt_begins_where_the_memory_ends_when_a_prefix_is_cached(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(cached=7)
    tested = sequence(prompt=10, max_tokens=2)
    make_engine(runner).submit(tested)
    assert ids(await outputs(tested)) == [100, 101]
    assert (tested.cached, [token_ids for _, token_ids in runner.steps]) == (7, [[7, 8, 9], [100]])


async def test_waiting_sequence_runs_on_the_next_model_when_the_thread_fails_once(make_engine: MakeEngine) -> None:
    first, second = SteppingRunner(failures={1: SystemExit("gone")}), SteppingRunner(allowed=0)
    loads = iter([first, second])
    engine = make_engine(second, load=lambda: next(loads), max_sequences=1, start=False)
    running, queued = sequence(), sequence()
    engine.submit(running)
    engine.submit(queued)
    engine.start()
    assert (await outputs(running))[-1].stop_reason is StopReason.ENGINE_ERROR
    assert isinstance(running.error, EngineError)
    assert running.error.message == "The engine stopped: SystemExit: gone."
    second.wait_until_entered(1)
    assert (first.closed, engine.state, engine.active) == (True, EngineState.READY, 1)
    second.allow()
    assert ids(await outputs(queued)) == [100, 101, 102, 103, 104]


async def test_people_are_told_in_words_when_the_runner_is_lost(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(failures={0: RunnerLostError("The model's process has ended (-9).")})
    lost = sequence()
    make_engine(runner).submit(lost)
    await outputs(lost)
    assert isinstance(lost.error, EngineError)
    assert lost.error.message == "The engine stopped: The model's process has ended (-9)."


async def test_engine_is_not_healthy_when_it_loads_again(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(failures={0: SystemExit("gone")})
    loaded, loads = threading.Event(), 0

    def load() -> SteppingRunner:
        nonlocal loads
        loads += 1
        if loads > 1:
            loaded.wait(WAIT_S)
        return runner

    engine = make_engine(runner, load=load)
    running, late = sequence(), sequence()
    engine.submit(running)
    await outputs(running)
    assert (engine.state, engine.message) == (EngineState.LOADING, "loading the model again, after a failure")
    engine.submit(late)
    loaded.set()
    assert ids(await outputs(late)) == [100, 101, 102, 103, 104]
    assert engine.state is EngineState.READY


async def test_everybody_gets_the_error_when_the_thread_fails_again(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(failures={1: SystemExit("gone"), 3: SystemExit("gone again")})
    engine = make_engine(runner, max_sequences=1, start=False)
    first, second, queued = sequence(), sequence(), sequence()
    for submitted in (first, second, queued):
        engine.submit(submitted)
    engine.start()
    for submitted in (first, second, queued):
        assert (await outputs(submitted))[-1].stop_reason is StopReason.ENGINE_ERROR
    assert (engine.state, engine.active) == (EngineState.FAILED, 0)
    assert engine.message == "The engine stopped: SystemExit: gone again. Restart the server; the log has the details."
    assert isinstance(queued.error, BackendUnavailableError)
    with pytest.raises(BackendUnavailableError, match="Restart the server"):
        engine.submit(sequence())
    engine.close()
    assert runner.closed


async def test_engine_fails_for_good_when_the_model_cannot_be_loaded_again(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(failures={0: SystemExit("gone")})
    loads = 0

    def load() -> SteppingRunner:
        nonlocal loads
        loads += 1
        if loads > 1:
            raise OSError("disk gone")
        return runner

    engine = make_engine(runner, load=load, max_sequences=1, start=False)
    running, queued = sequence(), sequence()
    engine.submit(running)
    engine.submit(queued)
    engine.start()
    assert (await outputs(running))[-1].stop_reason is StopReason.ENGINE_ERROR
    assert (await outputs(queued))[-1].stop_reason is StopReason.ENGINE_ERROR
    assert isinstance(queued.error, BackendUnavailableError)
    assert (engine.state, engine.active) == (EngineState.FAILED, 0)
    assert engine.message.startswith("The model cannot be loaded: OSError: disk gone.")


async def test_model_is_loaded_again_when_its_device_is_lost(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(failures={2: RunnerLostError("device-side assert")}, max_batch=2)
    engine = make_engine(runner, start=False)
    both = [sequence(prompt=1), sequence(prompt=1)]
    for submitted in both:
        engine.submit(submitted)
    engine.start()
    for submitted in both:
        assert (await outputs(submitted))[-1].stop_reason is StopReason.ENGINE_ERROR
    after = sequence()
    engine.submit(after)
    assert ids(await outputs(after)) == [100, 101, 102, 103, 104]
    # Not tried one by one on a device that is gone.
    assert runner.batches == [2, 2, 2, 1, 1, 1, 1, 1]


async def test_engine_fails_when_its_thread_is_gone_without_a_word(make_engine: MakeEngine) -> None:
    engine = make_engine(SteppingRunner(), start=False)
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    engine._thread, engine._state = thread, EngineState.READY
    assert engine.state is EngineState.FAILED
    with pytest.raises(BackendUnavailableError, match="thread is gone"):
        engine.submit(sequence())


@pytest.mark.parametrize("error", [RuntimeError("bad"), MemoryError()], ids=["exception", "out of memory"])
@pytest.mark.parametrize("failing_step", range(8))
async def test_nobody_is_harmed_when_a_step_fails_once(
    make_engine: MakeEngine, failing_step: int, error: Exception
) -> None:
    runner = SteppingRunner(failures={failing_step: error}, max_batch=4)
    engine = make_engine(runner, prefill_chunk=4, start=False)
    three = [sequence(prompt=length) for length in (1, 3, 9)]
    for submitted in three:
        engine.submit(submitted)
    engine.start()
    ends = [await outputs(submitted) for submitted in three]
    # A step of several is made again, one by one; only one that was alone ends its sequence.
    failed = [end for end in ends if end[-1].stop_reason is StopReason.ENGINE_ERROR]
    assert len(failed) == (1 if runner.batches[failing_step] == 1 else 0)
    assert all(ids(end) == [100, 101, 102, 103, 104] for end in ends if end not in failed)
    assert (engine.active, engine.state) == (0, EngineState.READY)
    assert sorted(map(id, runner.released)) == sorted(map(id, three))


@pytest.mark.parametrize("failing_step", range(8))
async def test_engine_serves_again_when_its_thread_failed_at(make_engine: MakeEngine, failing_step: int) -> None:
    runner = SteppingRunner(failures={failing_step: SystemExit("gone")}, max_batch=4)
    engine = make_engine(runner, prefill_chunk=4, start=False)
    three = [sequence(prompt=length) for length in (1, 3, 9)]
    for submitted in three:
        engine.submit(submitted)
    engine.start()
    for submitted in three:
        end = await outputs(submitted)
        if end[-1].stop_reason is not StopReason.ENGINE_ERROR:
            assert ids(end) == [100, 101, 102, 103, 104]
    after = sequence()
    engine.submit(after)
    assert ids(await outputs(after)) == [100, 101, 102, 103, 104]
    assert engine.active == 0


async def test_sequence_is_refused_when_the_model_has_less_room_than_was_thought(make_engine: MakeEngine) -> None:
    engine = make_engine(SteppingRunner(kv_tokens=256))
    tested = sequence(prompt=200, max_tokens=100)
    engine.submit(tested)
    assert ids(await outputs(tested)) == [None]
    assert isinstance(tested.error, InvalidRequestError)
    assert "300 tokens together" in tested.error.message
    assert engine.active == 0


def full_reader_sequence(*, max_unread: int, max_tokens: int = 50) -> Sequence:
    return Sequence(
        prompt_ids=[1],
        sampling=SamplingParams(max_tokens=max_tokens),
        end_ids=frozenset(),
        reader=TokenReader(max_unread=max_unread),
    )


async def test_only_its_own_sequence_pauses_when_a_reader_does_not_read(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(max_batch=4)
    engine = make_engine(runner)
    slow, quick = full_reader_sequence(max_unread=7), sequence(max_tokens=60)
    engine.submit(slow)
    engine.submit(quick)
    assert len(ids(await outputs(quick))) == 60
    assert (len(slow.token_ids), slow.stop_reason, engine.active) == (7, None, 1)
    # It goes on where it was as soon as its reader comes, with nobody else to keep the engine awake.
    assert ids(await outputs(slow)) == list(range(100, 150))


async def test_engine_rests_when_every_reader_is_slow(make_engine: MakeEngine) -> None:
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return 0.0

    runner = SteppingRunner()
    engine = make_engine(runner, clock=clock)
    slow = full_reader_sequence(max_unread=3)
    engine.submit(slow)
    await asyncio.to_thread(runner.wait_until_entered, 3)
    before = looks
    # Time enough for thousands of rounds: a sequence beside it, submitted and ended.
    beside = sequence(max_tokens=400)
    engine.submit(beside)
    await outputs(beside)
    rested = looks
    await asyncio.to_thread(threading.Event().wait, 0.1)
    assert looks - rested < 10 < rested - before
    engine.cancel(slow)
    assert (await outputs(slow))[-1].stop_reason is StopReason.CLIENT_STOP


async def test_stream_ends_by_timeout_when_its_reader_stays_away(make_engine: MakeEngine) -> None:
    engine = make_engine(SteppingRunner(max_batch=4), slow_reader_s=0.05, name="slow")
    slow, quick = full_reader_sequence(max_unread=3), sequence(max_tokens=200)
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    slow.on_stopped = lambda at, made: loop.call_soon_threadsafe(stopped.set) and None
    engine.submit(slow)
    engine.submit(quick)
    async with asyncio.timeout(WAIT_S):
        await stopped.wait()
    assert len(ids(await outputs(quick))) == 200
    assert ids(await outputs(slow)) == [100, 101, 102, None]
    assert slow.stop_reason is StopReason.TIMEOUT
    assert isinstance(slow.error, GenerationTimeoutError)
    assert REGISTRY.get_sample_value("streamsite_engine_slow_readers_total", {"backend": "slow"}) == 1
    assert engine.active == 0


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(BackendUnavailableError("Run this."), "Run this.", id="its own words"),
        pytest.param(
            OSError("no such file"),
            "The model cannot be loaded: OSError: no such file. Run `manage.py fetch_model --check`.",
            id="any other",
        ),
    ],
)
async def test_waiting_requests_get_the_reason_when_the_model_cannot_be_loaded(error: Exception, message: str) -> None:
    def load() -> SteppingRunner:
        raise error

    engine = TorchEngine(load)
    waiting = sequence()
    engine.submit(waiting)
    engine.start()
    await outputs(waiting)
    assert isinstance(waiting.error, BackendUnavailableError)
    assert (waiting.error.message, engine.message, engine.state) == (message, message, EngineState.FAILED)
    engine.close()


async def test_submit_is_refused_when_the_queue_is_full(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(allowed=0)
    engine = make_engine(runner, max_sequences=1, max_queue=1)
    first, second = sequence(), sequence()
    engine.submit(first)
    assert engine.has_room
    engine.submit(second)
    assert not engine.has_room
    with pytest.raises(RateLimitError):
        engine.submit(sequence())
    runner.allow()
    await outputs(first)
    assert engine.has_room
    assert ids(await outputs(second)) == [100, 101, 102, 103, 104]


async def test_everything_ends_when_the_engine_is_closed(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(allowed=0)
    engine = make_engine(runner, max_sequences=1)
    running, queued, late = sequence(max_tokens=400), sequence(), sequence()
    engine.submit(running)
    runner.wait_until_entered(1)
    engine.submit(queued)
    closing = threading.Thread(target=engine.close)
    closing.start()
    assert (await outputs(queued))[-1].stop_reason is StopReason.SERVER_SHUTDOWN
    runner.allow()
    assert (await outputs(running))[-1].stop_reason is StopReason.SERVER_SHUTDOWN
    closing.join(WAIT_S)
    assert isinstance(running.error, ServerShutdownError)
    assert (len(runner.steps), runner.closed, engine.active) == (1, True, 0)
    with pytest.raises(ServerShutdownError):
        engine.submit(late)
    engine.close()


async def test_steps_stop_when_the_readers_loop_is_gone(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(allowed=0)
    stopped = threading.Event()

    async def submit() -> TorchEngine:
        engine = make_engine(runner)
        engine.submit(sequence(max_tokens=400, on_stopped=lambda at, made: stopped.set()))
        return engine

    engine = await asyncio.to_thread(lambda: asyncio.run(submit()))
    runner.allow()
    assert await asyncio.to_thread(stopped.wait, WAIT_S)
    assert len(runner.steps) <= 3
    assert engine.active == 0


async def test_engine_goes_on_when_on_stopped_raises(make_engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    def on_stopped(at: float, made: int) -> None:
        raise ZeroDivisionError

    engine = make_engine(SteppingRunner())
    tested, after = sequence(on_stopped=on_stopped), sequence()
    engine.submit(tested)
    engine.submit(after)
    assert ids(await outputs(tested)) == [100, 101, 102, 103, 104]
    assert ids(await outputs(after)) == [100, 101, 102, 103, 104]
    assert "on_stopped failed" in caplog.text
