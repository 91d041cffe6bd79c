"""Sequences of a tiny model's ids, run through an engine or step by step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import torch

from generation.engine.base import Engine, Runner, Sampled
from generation.engine.llama_weights import LlamaWeights, read_llama_config
from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenReader
from generation.request import SamplingParams
from tests.tiny_model import END_ID

PROMPT = [1, 40, 50, 60, 70, 80, 90, 100, 110, 120]


def sequence(prompt: list[int] = PROMPT, **sampling: Any) -> Sequence:
    return Sequence(
        prompt_ids=prompt,
        sampling=SamplingParams(**{"max_tokens": 40, **sampling}),
        end_ids=frozenset({END_ID}),
        reader=TokenReader(),
    )


def llama_weights(folder: Path, dtype: torch.dtype = torch.float32) -> LlamaWeights:
    config = read_llama_config(folder)
    assert config is not None
    return LlamaWeights(folder, config, dtype=dtype, device=torch.device("cpu"))


async def finished(engine: Engine, tested: Sequence) -> Sequence:
    """Submit a sequence and wait for its end."""
    engine.submit(tested)
    async with asyncio.timeout(60):
        while tested.stop_reason is None:
            await tested.reader.read()
    return tested


async def cancelled(engine: Engine, tested: Sequence, *, after_reads: int) -> None:
    """Submit a sequence, cancel it after some reads, or its end if that comes first, and wait for its end."""
    engine.submit(tested)
    for _ in range(after_reads):
        if tested.stop_reason is None:
            await tested.reader.read()
    engine.cancel(tested)
    async with asyncio.timeout(60):
        while tested.stop_reason is None:
            await tested.reader.read()


async def generated(engine: Engine, *, prompt: list[int] = PROMPT, **sampling: Any) -> list[int]:
    return (await finished(engine, sequence(prompt, **sampling))).token_ids


def stepped(runner: Runner, sequences: list[Sequence], *, prefill_chunk: int = 256) -> list[Sampled | None]:
    """Take one step of all ``sequences``, without an engine."""
    for tested in sequences:
        if tested.cached is None:
            tested.limit = tested.limit or len(tested.prompt_ids) + (tested.sampling.max_tokens or 0)
            tested.computed = tested.cached = runner.join(tested)
    chunks = [tested.next_chunk(prefill_chunk) for tested in sequences]
    drawn = runner.step(chunks)
    for chunk, sampled in zip(chunks, drawn, strict=True):
        chunk.sequence.computed += len(chunk.token_ids)
        if sampled is not None:
            chunk.sequence.append(sampled.token_id)
    return drawn


def greedy_by_library(model: Any, prompt: list[int], *, tokens: int = 40) -> list[int]:
    """What ``model.generate`` answers to ``prompt``, alone."""
    whole = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False,
        max_new_tokens=tokens,
    )
    ids: list[int] = whole[0, len(prompt) :].tolist()
    return ids
