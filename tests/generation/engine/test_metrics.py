"""The engine's figures as `/metrics` has them, over a runner whose steps are counted."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from generation.engine.torch_engine import TorchEngine
from tests.generation.engine.stepping_runner import SteppingRunner
from tests.generation.engine.test_torch_engine import MakeEngine, make_engine, outputs, sequence

__all__ = ["make_engine"]


def figure(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"streamsite_engine_{name}", labels)


async def test_figures_are_counted_when_sequences_run(make_engine: MakeEngine) -> None:
    runner = SteppingRunner(max_batch=4, cached=2, allowed=0)
    engine: TorchEngine = make_engine(runner, name="counted", max_sequences=2, start=False)
    running = [sequence(prompt=3, max_tokens=4) for _ in range(2)]
    waiting = sequence(prompt=3, max_tokens=4)
    for submitted in (*running, waiting):
        engine.submit(submitted)
    engine.start()
    runner.allow(1)
    runner.wait_until_entered(2)
    assert figure("slots", backend="counted") == 2
    assert figure("slots_used", backend="counted") == 2
    assert figure("queue_length", backend="counted") == 1
    assert figure("kv_bound_bytes", backend="counted") == 1000
    engine.cancel(waiting)
    runner.allow()
    for submitted in (*running, waiting):
        await outputs(submitted)
    assert figure("batch_size_count", backend="counted") == figure("step_seconds_count", backend="counted") == 4
    assert figure("batch_size_sum", backend="counted") == 8
    assert figure("tokens_total", backend="counted") == 8
    assert figure("prompt_tokens_total", backend="counted") == 2
    assert figure("prefix_hits_total", backend="counted") == 2
    assert figure("prefix_tokens_total", backend="counted") == 4
    assert figure("cancelled_total", backend="counted") == 1
    engine.close()
    assert figure("slots_used", backend="counted") == figure("queue_length", backend="counted") == 0


@pytest.mark.parametrize(
    ("error", "failed", "restarts"),
    [
        pytest.param(RuntimeError("bad"), 1, 0, id="a step"),
        pytest.param(SystemExit("gone"), 1, 1, id="the thread"),
    ],
)
async def test_failures_are_counted_when(
    make_engine: MakeEngine, error: BaseException, failed: int, restarts: int
) -> None:
    name = f"failing-{restarts}"
    engine = make_engine(SteppingRunner(failures={1: error}), name=name)
    tested = sequence(prompt=1)
    engine.submit(tested)
    await outputs(tested)
    assert (figure("failed_total", backend=name), figure("restarts_total", backend=name)) == (failed, restarts)
