"""What sampling means, written as slowly and plainly as possible: one row, Python numbers, every token in turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from generation.request import SamplingParams


def edited(
    logits: Sequence[float],
    sampling: SamplingParams,
    *,
    prompt_ids: Sequence[int] = (),
    token_ids: Sequence[int] = (),
    forbidden: Sequence[int] = (),
) -> list[float]:
    """The logits with penalties, bias and forbidden ids."""
    counts = Counter(token_ids)
    values = []
    for token_id, logit in enumerate(logits):
        value = logit
        if token_id in counts or token_id in prompt_ids:
            penalty = sampling.repetition_penalty or 1.0
            value = value / penalty if value > 0 else value * penalty
        value -= (sampling.frequency_penalty or 0.0) * counts[token_id]
        value -= (sampling.presence_penalty or 0.0) * (token_id in counts)
        value += sampling.logit_bias.get(token_id, 0.0)
        values.append(-math.inf if token_id in forbidden else value)
    return values


def probabilities(logits: Sequence[float], sampling: SamplingParams) -> list[float]:
    """How likely each token is to be drawn, of edited logits."""
    if not sampling.temperature:
        best = max(range(len(logits)), key=lambda token_id: logits[token_id])
        return [float(token_id == best) for token_id in range(len(logits))]
    weights = _softmax([logit / sampling.temperature for logit in logits])
    ranked = sorted(range(len(weights)), key=lambda token_id: -weights[token_id])
    kept = ranked[: sampling.top_k] if sampling.top_k and sampling.top_k > 0 else ranked
    if sampling.top_p is not None and sampling.top_p < 1:
        total, before, nucleus = sum(weights[token_id] for token_id in kept), 0.0, []
        for token_id in kept:
            if nucleus and before >= sampling.top_p * total:
                break
            nucleus.append(token_id)
            before += weights[token_id]
        kept = nucleus
    least = (sampling.min_p or 0.0) * weights[ranked[0]]
    kept = [token_id for token_id in kept if weights[token_id] >= least]
    total = sum(weights[token_id] for token_id in kept)
    return [weights[token_id] / total if token_id in kept else 0.0 for token_id in range(len(weights))]


def _softmax(values: Sequence[float]) -> list[float]:
    best = max(values)
    weights = [math.exp(value - best) for value in values]
    return [weight / sum(weights) for weight in weights]
