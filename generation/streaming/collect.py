"""The whole answers to a request: the same deltas as a stream's, so that the two can never differ."""

from __future__ import annotations

from generation.output import FinishReason, TokenLogprob
from generation.protocol import Answer
from generation.streaming.choices import Choices
from generation.streaming.generation import Generation


async def collect(*generations: Generation) -> list[Answer]:
    """Read the generations of one request to their end. Raises GenerationError when one fails."""
    choices = Choices(generations)
    logprobs: dict[int, list[TokenLogprob]] = {generation.choice: [] for generation in generations}
    try:
        while True:
            try:
                event = await choices.next_event()
            except StopAsyncIteration:
                break
            if event is not None and event.delta is not None:
                logprobs[event.generation.choice].extend(event.delta.logprobs)
    finally:
        choices.close()
    return [_answer(generation, logprobs[generation.choice]) for generation in generations]


def _answer(generation: Generation, logprobs: list[TokenLogprob]) -> Answer:
    reason = generation.stop_reason
    assert reason is not None
    return Answer(
        text=generation.text,
        finish_reason=reason.finish_reason or FinishReason.STOP,
        logprobs=tuple(logprobs) if generation.request.sampling.logprobs else None,
        tool_calls=generation.tool_calls,
    )
