"""The bare OpenVINO library as a contestant: the difference is what our engine, HTTP, text and record cost."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

from bench.streams import Messages
from generation.backends.chat_prompt import ChatPrompt
from generation.engine.openvino_process import add_request, open_pipeline
from generation.engine.openvino_runner import pipeline_options
from generation.engine.weights import Weights
from generation.request import ChatMessage


class BareOpenvino:
    """Ids in and out of one pipeline, set up as `OpenvinoRunner` sets up its own."""

    def __init__(
        self, model: Path, prompt: ChatPrompt, end_ids: frozenset[int], *, streams: int, kv_tokens: int, threads: int
    ) -> None:
        self._prompt, self._end_ids = prompt, end_ids
        self._ids = itertools.count()
        options = pipeline_options(
            max_sequences=streams, kv_tokens=kv_tokens, prefill_chunk=256, weights=Weights.AUTO, threads=threads
        )
        self._pipeline = open_pipeline(str(model), **options)

    async def __call__(self, chats: list[Messages], tokens: int) -> tuple[int, float, list[float]]:
        prompts = [self._prompt.encode([ChatMessage(**message) for message in chat]) for chat in chats]
        return await asyncio.to_thread(self._generate, prompts, tokens)

    def _generate(self, prompts: list[list[int]], tokens: int) -> tuple[int, float, list[float]]:
        began = time.monotonic()
        handles = [self._add(ids, tokens) for ids in prompts]
        counts = [0] * len(handles)
        ttfts_s: list[float] = []
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
            for place, handle in enumerate(handles):
                while handle.can_read():
                    if not counts[place]:
                        ttfts_s.append(time.monotonic() - began)
                    counts[place] += sum(len(output.generated_ids) for output in handle.read().values())
        return sum(counts), time.monotonic() - began, ttfts_s

    def _add(self, ids: list[int], tokens: int) -> Any:
        config = {"max_new_tokens": tokens, "do_sample": False, "stop_token_ids": set(self._end_ids)}
        return add_request(self._pipeline, next(self._ids), ids, {**config, "eos_token_id": min(self._end_ids)})
