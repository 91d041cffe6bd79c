from __future__ import annotations

import asyncio
import threading

from generation.engine.token_queue import TokenQueue, TokenReader
from generation.output import StopReason, TokenOutput


def output(token_id: int) -> TokenOutput:
    return TokenOutput(token_id=token_id, made_at=float(token_id))


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the wake-ups from other threads."""

    wake_ups = 0

    def call_soon_threadsafe(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.wake_ups += 1
        return super().call_soon_threadsafe(*args, **kwargs)


async def test_all_outputs_arrive_in_order_when_published_from_another_thread() -> None:
    reader = TokenReader()

    def engine() -> None:
        token_queue = TokenQueue()
        for token_id in range(1000):
            token_queue.put(reader, output(token_id))
            token_queue.publish()

    thread = threading.Thread(target=engine)
    thread.start()
    arrived: list[int | None] = []
    while len(arrived) < 1000:
        arrived += [output.token_id for output in await reader.read()]
    thread.join()
    assert arrived == list(range(1000))


async def test_read_returns_at_once_when_outputs_are_there() -> None:
    reader = TokenReader()
    reader.arrive(output(1))
    reader.arrive(output(2))
    assert [arrived.token_id for arrived in await reader.read()] == [1, 2]


async def test_nothing_is_lost_when_a_read_is_cancelled() -> None:
    reader = TokenReader()
    read = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    # The output arrives and the read is cancelled before it can run: the worst moment.
    reader.arrive(output(7))
    read.cancel()
    await asyncio.gather(read, return_exceptions=True)
    reader.arrive(output(8))
    assert [arrived.token_id for arrived in await reader.read()] == [7, 8]


def test_loop_is_woken_once_when_a_step_makes_many_tokens() -> None:
    loop = CountingLoop()

    async def read_two() -> None:
        first, second = TokenReader(), TokenReader()
        before = loop.wake_ups
        token_queue = TokenQueue()
        for token_id in (1, 2, 3):
            token_queue.put(first, output(token_id))
            token_queue.put(second, output(token_id))
        assert token_queue.publish() == frozenset()
        assert [len(await first.read()), len(await second.read())] == [3, 3]
        assert loop.wake_ups == before + 1

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(read_two())


def test_publish_names_the_loop_when_it_is_closed() -> None:
    async def make_reader() -> TokenReader:
        return TokenReader()

    reader = asyncio.run(make_reader())
    token_queue = TokenQueue()
    token_queue.put(reader, TokenOutput(token_id=None, made_at=0.0, stop_reason=StopReason.CLIENT_STOP))
    assert token_queue.publish() == frozenset({reader.loop})
    assert token_queue.publish() == frozenset()


async def test_reader_is_full_until_it_has_read() -> None:
    reader, calls = TokenReader(max_unread=2), []
    reader.on_room = lambda: calls.append(reader.is_full)
    token_queue = TokenQueue()
    for token_id in (1, 2):
        assert not reader.is_full
        token_queue.put(reader, output(token_id))
    assert reader.is_full
    token_queue.publish()
    assert len(await reader.read()) == 2
    assert calls == [False]
    token_queue.put(reader, output(3))
    token_queue.publish()
    await reader.read()
    assert calls == [False]  # it was not full


async def test_engine_hears_of_it_when_a_full_reader_reads_a_part() -> None:
    reader, calls = TokenReader(max_unread=2), []
    reader.on_room = lambda: calls.append(reader.is_full)
    token_queue = TokenQueue()
    token_queue.put(reader, output(1))
    token_queue.publish()
    token_queue.put(reader, output(2))  # on its way
    assert len(await reader.read()) == 1
    assert calls == [False]
