"""Any transformers causal LM with one KV cache per sequence: chunks in, sampled ids out.

For models whose forward pass `generation.engine.llama` does not know. Lives in the engine's thread, because torch's
thread count and inference mode belong to a thread.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache

from generation.engine.base import Sampled
from generation.engine.kv_budget import rounded
from generation.engine.sampler import Sampler, sample
from generation.engine.sequence import Chunk, Sequence


class TorchRunner:
    """Runs chunks one forward pass each. See `generation.engine.base.Runner`."""

    max_batch = 1

    def __init__(self, model: Any, *, context_length: int, kv_tokens: int) -> None:
        self.kv_tokens = rounded(kv_tokens)
        self.context_length = min(context_length, self.kv_tokens)
        self._model = model
        self._vocab_size: int = model.get_output_embeddings().weight.shape[0]
        self._running: dict[Sequence, tuple[DynamicCache, Sampler]] = {}
        self._position_bytes = self._warm_up()

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        dtype: torch.dtype = self._model.dtype
        return dtype

    @property
    def summary(self) -> str:
        return (
            f"one sequence at a time, {self.context_length:,} positions each and {self.kv_tokens:,} together, "
            f"{str(self.dtype).removeprefix('torch.')}"
        )

    @property
    def kv_bytes(self) -> int:
        return self._position_bytes * sum(sequence.reserved for sequence in self._running)

    @property
    def kv_bound_bytes(self) -> int:
        return self._position_bytes * self.kv_tokens

    def known(self, prompt_ids: list[int]) -> None:
        return None

    def join(self, sequence: Sequence) -> int:
        cache = DynamicCache(config=self._model.config)
        self._running[sequence] = cache, Sampler(sequence, vocab_size=self._vocab_size, device=self._model.device)
        return 0

    def step(self, chunks: list[Chunk]) -> list[Sampled | None]:
        with torch.inference_mode():
            return [self._step_one(chunk) for chunk in chunks]

    def release(self, sequence: Sequence) -> None:
        self._running.pop(sequence, None)

    def close(self) -> None:
        self._running.clear()
        self._model = None

    def _step_one(self, chunk: Chunk) -> Sampled | None:
        cache, sampler = self._running[chunk.sequence]
        logits = self._forward(chunk.token_ids, cache)
        return sample([sampler], logits)[0] if chunk.wants_token else None

    def _forward(self, token_ids: list[int], cache: DynamicCache) -> torch.Tensor:
        """Logits after the last of ``token_ids``, shape (1, vocab_size); the cache grows by all of them."""
        input_ids = torch.tensor([token_ids], device=self._model.device)
        output = self._model(input_ids=input_ids, cache=cache, use_cache=True, logits_to_keep=1)
        logits: torch.Tensor = output.logits[0, -1:]
        return logits

    def _warm_up(self) -> int:
        """Pay for the kernels' first use at load, not in somebody's first token; return a position's bytes."""
        with torch.inference_mode():
            cache = DynamicCache(config=self._model.config)
            self._forward([0] * 8, cache)
            self._forward([0], cache)
        nbytes: int = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
        return nbytes // 9
