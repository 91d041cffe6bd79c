"""The process that OpenVINO runs in: the library holds the interpreter's lock for all of a step.

In the server's own process nothing else would run meanwhile: no request taken, no frame sent. Started by
`OpenvinoRunner`, which asks for one thing at a time over a socket; ends when that closes, so no child is left behind
whatever becomes of the server. Imports nothing of the project by itself: it starts in the time that the library takes.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import openvino
import openvino_genai

#: What a step made for a sequence: the id and its log probability, or None where the prompt goes on.
Token = tuple[int, float]


class RefusedError(Exception):
    """One sequence cannot go on; the others can."""


@dataclass(eq=False, slots=True, kw_only=True)
class Place:
    """A sequence in the library: the handle that its tokens come from, and those that nobody has asked for yet."""

    handle: Any
    unread: list[Token] = field(default_factory=list)


class Batch:
    """The sequences in the library, by the numbers that the server gave them."""

    def __init__(self, model: str, *, scheduler: dict[str, Any], properties: dict[str, Any]) -> None:
        self._pipeline = open_pipeline(model, scheduler=scheduler, properties=properties)
        self._places: dict[int, Place] = {}
        self._warm_up()

    @property
    def kv_bytes(self) -> int:
        metrics = self._pipeline.get_metrics()
        return int(metrics.kv_cache_size_in_bytes * metrics.cache_usage / 100)

    @property
    def kv_bound_bytes(self) -> int:
        return int(self._pipeline.get_metrics().kv_cache_size_in_bytes)

    def join(self, number: int, ids: list[int], config: dict[str, Any]) -> None:
        self._places[number] = Place(handle=add_request(self._pipeline, number, ids, config))

    def step(self, numbers: list[int]) -> list[Token | None]:
        """Return one token for each, from a step of all that have joined unless enough are left of earlier ones."""
        places = [self._places[number] for number in numbers]
        # One whose reader was slow was not asked for a while, and has tokens left.
        if not all(place.unread for place in places):
            self._pipeline.step()
            for place in self._places.values():
                place.unread += _read(place.handle)
        # Before any token is given out: the step can be made again for each sequence alone.
        for place in places:
            _check_goes_on(place)
        return [place.unread.pop(0) if place.unread else None for place in places]

    def release(self, number: int) -> None:
        place = self._places.pop(number, None)
        if place is None:
            return
        place.handle.stop()
        if not self._places and self._pipeline.has_non_finished_requests():
            # It frees memory in a step, and there may be none for a long time.
            self._pipeline.step()

    def _warm_up(self) -> None:
        """Pay for the kernels' first use at load, and let it take its memory."""
        config = {"max_new_tokens": 2, "ignore_eos": True, "do_sample": False}
        handle = add_request(self._pipeline, 0, [0] * 8, config)
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        del handle


def open_pipeline(model: str, *, scheduler: dict[str, Any], properties: dict[str, Any]) -> Any:
    """The library's pipeline, with these fields of its `SchedulerConfig` and properties of its device."""
    config = openvino_genai.SchedulerConfig()
    for name, value in scheduler.items():
        setattr(config, name, value)
    return openvino_genai.ContinuousBatchingPipeline(model, config, "CPU", properties)


def add_request(pipeline: Any, number: int, ids: list[int], values: dict[str, Any]) -> Any:
    """Let a sequence begin, with these fields of its `GenerationConfig`; return its handle."""
    tensor = openvino.Tensor(openvino.Type.i64, openvino.Shape([1, len(ids)]))
    tensor.data[:] = ids
    config = openvino_genai.GenerationConfig()
    config.apply_chat_template = False
    for name, value in values.items():
        setattr(config, name, value)
    return pipeline.add_request(number, tensor, config)


def _check_goes_on(place: Place) -> None:
    status = place.handle.get_status()
    if not place.unread and status != openvino_genai.GenerationStatus.RUNNING:
        raise RefusedError(f"OpenVINO ended the answer without a reason (status {status.name}).")


def _read(handle: Any) -> list[Token]:
    read: list[Token] = []
    while handle.can_read():
        for output in handle.read().values():
            read += zip(output.generated_ids, output.generated_log_probs, strict=True)
    return read


def serve(connection: Connection) -> None:
    """Answer one request after the other until the other side has gone.

    The first thing that comes is what `Batch` is made with; its answer, as every other, is (what, kv_bytes): "done"
    with the result, "refused" with a message about one sequence, or "lost" with why nothing more can be done.
    """
    model, options = connection.recv()
    try:
        batch = Batch(model, **options)
        connection.send(("done", (batch.kv_bound_bytes, openvino_genai.__version__), batch.kv_bytes))
        while True:
            method, *arguments = connection.recv()
            try:
                result = getattr(batch, method)(*arguments)
            except RefusedError as exc:
                connection.send(("refused", str(exc), batch.kv_bytes))
            else:
                connection.send(("done", result, batch.kv_bytes))
    except OSError:
        raise
    except Exception as exc:
        # What it has done of a step is not known.
        connection.send(("lost", f"{type(exc).__name__}: {exc}", 0))


if __name__ == "__main__":
    # A Ctrl-C in a terminal is for the server, which lets streams end first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        serve(Connection(int(sys.argv[1])))
