"""Choosing tokens: rows of logits in, token ids out, the rows of a step together.

Order: penalties, logit bias, forbidden ids and response format, temperature, top-k, top-p, min-p, draw. Each sequence
draws one number a token from a generator of its own, so a seed gives the same answer whatever else runs beside it.
Log-probabilities are the model's own, of the logits before all of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Rows

import torch

from generation.engine.base import Sampled
from generation.engine.grammar import Constraint
from generation.engine.sequence import Sequence
from generation.exceptions import EngineError
from generation.output import IdLogprobs

#: Sorting a vocabulary of 49,152 costs 3 ms, finding its best 256 costs 0.1 ms, and they nearly always hold top_p.
SHORT_LIST = 256
NOT_NUMBERS = "The model computed values that are not numbers."


class Sampler:
    """The sampling state of one sequence: its generator, and what its penalties count."""

    def __init__(self, sequence: Sequence, *, vocab_size: int, device: torch.device) -> None:
        self.sampling = sampling = sequence.sampling
        self._sequence = sequence
        # On the CPU for every device: the same seed draws the same, and drawing does not wait for a GPU.
        self._generator = torch.Generator()
        #: The number drawn for the id that is not chosen yet: a step that fails and is made again uses it again.
        self._drawn: float | None = None
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed & 0xFFFF_FFFF_FFFF_FFFF)
        self._bias_ids = torch.tensor(list(sampling.logit_bias), dtype=torch.long, device=device)
        self._biases = torch.tensor(list(sampling.logit_bias.values()), dtype=torch.float32, device=device)
        self._constraint = sequence.constraint
        self._counts: torch.Tensor | None = None
        self._seen: torch.Tensor | None = None
        if sampling.presence_penalty or sampling.frequency_penalty:
            self._counts = torch.zeros(vocab_size, device=device)
        if (sampling.repetition_penalty or 1.0) != 1.0:
            self._seen = torch.zeros(vocab_size, dtype=torch.bool, device=device)
            self._seen[torch.tensor(sequence.prompt_ids, dtype=torch.long, device=device)] = True

    def edited(self, logits: torch.Tensor) -> torch.Tensor:
        """``logits``, shape (vocab_size,), with penalties, bias and forbidden ids; the same tensor when none apply."""
        sampling = self.sampling
        if self._seen is not None and sampling.repetition_penalty:
            penalty = sampling.repetition_penalty
            penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
            logits = torch.where(self._seen, penalised, logits)
        if self._counts is not None:
            logits = logits - (sampling.frequency_penalty or 0.0) * self._counts
            logits = logits - (sampling.presence_penalty or 0.0) * (self._counts > 0)
        if len(self._bias_ids):
            logits = logits.index_add(0, self._bias_ids, self._biases)
        forbidden = self._sequence.forbidden_ids()
        if self._constraint is not None:
            allowed = _allowed(self._constraint, len(logits), logits.device)
            narrower = allowed.index_fill(0, torch.tensor(forbidden, dtype=torch.long, device=logits.device), False)
            # When all is said only end tokens are left, however few tokens that took.
            logits = logits.where(narrower if narrower.any() else allowed, -math.inf)
        elif forbidden:
            logits = logits.index_fill(0, torch.tensor(forbidden, device=logits.device), -math.inf)
        return logits

    def uniform(self) -> float:
        """The number of this sequence's own, in [0, 1), for its next id."""
        if self._drawn is None:
            self._drawn = torch.rand((), generator=self._generator, dtype=torch.float64).item()
        return self._drawn

    def count(self, token_id: int) -> None:
        """Remember a chosen id for the penalties and the response format."""
        self._drawn = None
        if self._constraint is not None:
            self._constraint.take(token_id)
        if self._counts is not None:
            self._counts[token_id] += 1
        if self._seen is not None:
            self._seen[token_id] = True


def _allowed(constraint: Constraint, vocab_size: int, device: torch.device) -> torch.Tensor:
    """Which ids the response format lets come next, shape (vocab_size,)."""
    octets = torch.frombuffer(bytearray(constraint.mask()), dtype=torch.uint8).to(device)
    bits = torch.arange(8, dtype=torch.uint8, device=device)
    known = ((octets.unsqueeze(-1) >> bits) & 1).bool().flatten()[:vocab_size]
    # Models can have more ids than their tokenizer.
    return torch.nn.functional.pad(known, (0, vocab_size - len(known)))


def sample(samplers: Rows[Sampler], logits: torch.Tensor) -> list[Sampled]:
    """Choose the next id of each row of ``logits``, shape (rows, vocab_size).

    Raises EngineError when a row's values are not numbers; nothing is drawn or counted then, so that the rows can be
    tried again one by one.
    """
    raw = logits = logits.float()
    edited = [sampler.edited(row) for sampler, row in zip(samplers, logits, strict=True)]
    if any(row.data_ptr() != original.data_ptr() for row, original in zip(edited, logits, strict=True)):
        logits = torch.stack(edited)
    best = logits.max(-1)
    if not best.values.isfinite().all():
        raise EngineError(NOT_NUMBERS)
    token_ids: list[int] = best.indices.tolist()
    for row, token_id in _draws(samplers, logits):
        token_ids[row] = token_id
    logprobs = _logprobs(samplers, raw, token_ids)
    for sampler, token_id in zip(samplers, token_ids, strict=True):
        sampler.count(token_id)
    return [Sampled(token_id=token_id, logprobs=logprobs.get(row)) for row, token_id in enumerate(token_ids)]


def _logprobs(samplers: Rows[Sampler], raw: torch.Tensor, token_ids: Rows[int]) -> dict[int, IdLogprobs]:
    """By row, for the rows that want them."""
    rows = [row for row, sampler in enumerate(samplers) if sampler.sampling.logprobs]
    if not rows:
        return {}
    counts = [samplers[row].sampling.top_logprobs for row in rows]
    every = raw[rows].log_softmax(-1)
    chosen = every.gather(-1, torch.tensor([[token_ids[row]] for row in rows], device=raw.device))
    best, ids = every.topk(min(max(counts), every.shape[-1]))
    return {
        row: IdLogprobs(logprob=logprob, top=tuple(zip(top_ids[:count], top[:count], strict=True)))
        for row, count, (logprob,), top_ids, top in zip(
            rows, counts, chosen.tolist(), ids.tolist(), best.tolist(), strict=True
        )
    }


def _draws(samplers: Rows[Sampler], logits: torch.Tensor) -> list[tuple[int, int]]:
    """Row and id of each row that is drawn rather than greedy."""
    rows = [row for row, sampler in enumerate(samplers) if (sampler.sampling.temperature or 0.0) > 0]
    if not rows:
        return []
    temperatures = [samplers[row].sampling.temperature for row in rows]
    scaled = logits[rows] / logits.new_tensor(temperatures).unsqueeze(-1)
    candidates = _candidates([samplers[row] for row in rows], scaled)
    return [
        (row, _pick(weights, ids, samplers[row].uniform()))
        for row, (weights, ids) in zip(rows, candidates, strict=True)
    ]


def _candidates(samplers: Rows[Sampler], logits: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
    """For each row the cumulative weights of the tokens that may be drawn, and their ids (None: all, in order)."""
    vocab_size = logits.shape[-1]
    width = min(SHORT_LIST, vocab_size)
    best, order = logits.topk(width)
    totals = logits.logsumexp(-1, keepdim=True)
    reached = (best - totals).exp().sum(-1).tolist()
    chosen: list[tuple[torch.Tensor, torch.Tensor | None]] = []
    for row, sampler in enumerate(samplers):
        top_k, top_p = _cuts(sampler, vocab_size)
        if top_k == vocab_size and top_p == math.inf:
            chosen.append((_cumulative(logits[row], best[row, 0], sampler.sampling.min_p), None))
            continue
        values, ids = best[row], order[row]
        if (top_k > width) if top_k < vocab_size else (reached[row] < top_p):
            values, ids = logits[row].sort(descending=True)
        values, ids = values[:top_k], ids[:top_k]
        total = totals[row] if top_k == vocab_size else values.logsumexp(-1)
        if top_p < math.inf:
            probabilities = (values - total).exp()
            kept = max(1, int((probabilities.cumsum(-1) - probabilities < top_p).sum()))
            values, ids = values[:kept], ids[:kept]
        chosen.append((_cumulative(values, values[0], sampler.sampling.min_p), ids))
    return chosen


def _cuts(sampler: Sampler, vocab_size: int) -> tuple[int, float]:
    """``top_k`` and ``top_p``, as the whole vocabulary and infinity where they cut nothing."""
    top_k, top_p = sampler.sampling.top_k or 0, sampler.sampling.top_p
    return (
        top_k if 0 < top_k < vocab_size else vocab_size,
        top_p if top_p is not None and top_p < 1.0 else math.inf,
    )


def _cumulative(values: torch.Tensor, best: torch.Tensor, min_p: float | None) -> torch.Tensor:
    """Running sums of the values' weights, the best one's being 1; in double, as 49,152 roundings add up."""
    weights = (values - best).exp()
    if min_p:
        weights = weights.where(values >= best + math.log(min_p), 0.0)
    return weights.cumsum(-1, dtype=torch.float64)


def _pick(cumulative: torch.Tensor, ids: torch.Tensor | None, uniform: float) -> int:
    """The id at which the running sum passes ``uniform`` of the whole."""
    place = int(torch.searchsorted(cumulative, cumulative[-1] * uniform, right=True))
    # The product can round up to the whole; then it is the last one with a weight.
    place = min(place, int(torch.searchsorted(cumulative, cumulative[-1])))
    return place if ids is None else int(ids[place])
