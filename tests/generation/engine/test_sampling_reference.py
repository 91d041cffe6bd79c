"""Each way to sample, and mixtures of them, against a reference in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from generation.engine.sampler import SHORT_LIST, Sampler, sample
from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenReader
from generation.request import SamplingParams
from tests.generation.engine.sampling_reference import edited, probabilities

PROMPT = [3, 5, 5, 9]
END_IDS = frozenset({2})
STOP_IDS = frozenset({4})
#: Draws of one distribution; a token of probability p is drawn p ± 4 standard deviations of the time.
DRAWS = 1500

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "all": {},
    "cold": {"temperature": 0.4},
    "hot": {"temperature": 2.0},
    "top-k": {"top_k": 5},
    "top-k of one": {"top_k": 1},
    "top-k of more than the short list": {"top_k": SHORT_LIST + 30},
    "top-p": {"top_p": 0.6},
    "top-p of nearly all": {"top_p": 0.999},
    "min-p": {"min_p": 0.1},
    "top-k, then top-p": {"top_k": 8, "top_p": 0.7},
    "top-k, top-p, min-p": {"top_k": 20, "top_p": 0.9, "min_p": 0.05, "temperature": 0.8},
    "repetition": {"repetition_penalty": 1.7},
    "repetition below one": {"repetition_penalty": 0.6},
    "presence": {"presence_penalty": 1.5},
    "presence below zero": {"presence_penalty": -1.0},
    "frequency": {"frequency_penalty": 0.8},
    "all penalties": {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.5},
    "bias": {"logit_bias": {7: 3.0, 11: -100.0}},
    "min tokens": {"min_tokens": 1000, "temperature": 0.0},
    "min tokens, end wanted": {"min_tokens": 1000, "logit_bias": {2: 100.0, 4: 100.0}},
    "everything": {
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.2,
        "logit_bias": {7: 2.0},
        "min_tokens": 1000,
        "temperature": 1.3,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.02,
    },
}


def sequence(reader: TokenReader, **sampling: Any) -> Sequence:
    return Sequence(
        prompt_ids=PROMPT,
        sampling=SamplingParams(**{"temperature": 1.0, "seed": 1, **sampling}),
        end_ids=END_IDS,
        stop_ids=STOP_IDS,
        reader=reader,
    )


def rows_of(count: int, *, vocab: int, spread: float = 2.0) -> torch.Tensor:
    return spread * torch.randn(count, vocab, generator=torch.Generator().manual_seed(8))


@pytest.mark.parametrize("way", WAYS)
async def test_only_what_the_reference_allows_is_drawn_while_a_text_grows(way: str) -> None:
    tested = sequence(TokenReader(), **WAYS[way])
    sampler = Sampler(tested, vocab_size=400, device=torch.device("cpu"))
    for row in rows_of(60, vocab=400):
        forbidden = tested.forbidden_ids()
        values = edited(
            row.tolist(), tested.sampling, prompt_ids=PROMPT, token_ids=tested.token_ids, forbidden=forbidden
        )
        (sampled,) = sample([sampler], row.unsqueeze(0))
        likely = probabilities(values, tested.sampling)
        # A token at the very edge of a cut may fall to the other side, rounded to single precision.
        assert likely[sampled.token_id] > 0, f"{sampled.token_id} after {tested.token_ids}"
        tested.append(sampled.token_id)


@pytest.mark.parametrize("way", WAYS)
async def test_tokens_are_drawn_as_often_as_the_reference_says(way: str) -> None:
    (row,) = rows_of(1, vocab=30, spread=1.0)
    samplings = [sequence(TokenReader(), **{**WAYS[way], "seed": seed}) for seed in range(DRAWS)]
    samplers = [Sampler(one, vocab_size=30, device=torch.device("cpu")) for one in samplings]
    counts = Counter(sampled.token_id for sampled in sample(samplers, row.expand(DRAWS, -1)))
    forbidden = samplings[0].forbidden_ids()
    values = edited(row.tolist(), samplings[0].sampling, prompt_ids=PROMPT, forbidden=forbidden)
    for token_id, probability in enumerate(probabilities(values, samplings[0].sampling)):
        deviation = (probability * (1 - probability) / DRAWS) ** 0.5
        assert abs(counts[token_id] / DRAWS - probability) <= 4 * deviation, token_id


async def test_every_way_draws_the_same_ids_when_alone_and_in_one_batch() -> None:
    rows = rows_of(25, vocab=600)
    alone = [
        Sampler(sequence(TokenReader(), **way), vocab_size=600, device=torch.device("cpu")) for way in WAYS.values()
    ]
    batch = [
        Sampler(sequence(TokenReader(), **way), vocab_size=600, device=torch.device("cpu")) for way in WAYS.values()
    ]
    for row in rows:
        together = [sampled.token_id for sampled in sample(batch, row.expand(len(batch), -1))]
        assert together == [sample([one], row.unsqueeze(0))[0].token_id for one in alone]
