from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch

from generation.engine.sampler import SHORT_LIST, Sampler, sample
from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenReader
from generation.exceptions import EngineError
from generation.request import SamplingParams

#: Probabilities 0.4, 0.3, 0.2, 0.1 for ids 3, 0, 2, 1.
PROBABILITIES = [0.3, 0.1, 0.2, 0.4]


@pytest.fixture
async def reader() -> TokenReader:
    return TokenReader()


def sampler(reader: TokenReader, *, prompt_ids: tuple[int, ...] = (), vocab: int = 4, **sampling: Any) -> Sampler:
    sequence = Sequence(
        prompt_ids=list(prompt_ids),
        sampling=SamplingParams(**{"seed": 1, "temperature": 1.0, **sampling}),
        end_ids=frozenset({3}),
        reader=reader,
    )
    return Sampler(sequence, vocab_size=vocab, device=torch.device("cpu"))


def one(tested: Sampler, logits: torch.Tensor) -> int:
    return sample([tested], logits.unsqueeze(0))[0].token_id


def logits(probabilities: list[float] = PROBABILITIES) -> torch.Tensor:
    return torch.tensor(probabilities).log()


@pytest.mark.parametrize(
    ("sampling", "drawn"),
    [
        pytest.param({}, {0, 1, 2, 3}, id="all"),
        pytest.param({"top_k": 2}, {0, 3}, id="top-k"),
        pytest.param({"top_k": 1}, {3}, id="top-k of one"),
        pytest.param({"top_k": -1}, {0, 1, 2, 3}, id="top-k off"),
        pytest.param({"top_p": 0.7}, {0, 3}, id="top-p reached exactly"),
        pytest.param({"top_p": 0.71}, {0, 2, 3}, id="top-p reached by one more"),
        pytest.param({"top_p": 0.0}, {3}, id="top-p of nothing keeps one"),
        pytest.param({"min_p": 0.5}, {0, 2, 3}, id="min-p"),
        pytest.param({"min_p": 0.6}, {0, 3}, id="min-p higher"),
        pytest.param({"top_k": 3, "top_p": 0.7}, {0, 3}, id="top-p of what top-k left: 0.78 of 0.9"),
        pytest.param({"top_k": 3, "min_p": 0.6}, {0, 3}, id="top-k and min-p"),
        pytest.param({"logit_bias": {1: 100.0}}, {1}, id="bias up"),
        pytest.param({"logit_bias": {3: -100.0, 0: -100.0}}, {1, 2}, id="bias down"),
        pytest.param({"min_tokens": 10_000}, {0, 1, 2}, id="end token forbidden"),
        pytest.param({"temperature": 0.0}, {3}, id="greedy"),
        pytest.param({"temperature": 1e-4}, {3}, id="nearly greedy"),
    ],
)
async def test_only_allowed_ids_are_drawn_when(reader: TokenReader, sampling: dict[str, Any], drawn: set[int]) -> None:
    tested = sampler(reader, **sampling)
    assert {one(tested, logits()) for _ in range(300)} == drawn


async def test_frequencies_follow_the_probabilities_when_nothing_is_cut(reader: TokenReader) -> None:
    tested = sampler(reader)
    counts = Counter(one(tested, logits()) for _ in range(4000))
    assert [round(counts[i] / 4000, 1) for i in range(4)] == PROBABILITIES


async def test_nucleus_is_found_beyond_the_short_list_when_the_distribution_is_flat(reader: TokenReader) -> None:
    size = 4 * SHORT_LIST
    flat = torch.linspace(0.001, 0.0, size)  # best first, all nearly alike
    tested = sampler(reader, vocab=size, top_p=0.5)
    drawn = {one(tested, flat) for _ in range(3000)}
    assert max(drawn) < size // 2
    assert len(drawn) > SHORT_LIST


async def test_draws_repeat_when_the_seed_is_the_same(reader: TokenReader) -> None:
    draws = [
        [one(tested, logits()) for _ in range(50)] for tested in (sampler(reader, seed=7), sampler(reader, seed=7))
    ]
    assert draws[0] == draws[1]


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 - 1, -(2**63)])
async def test_any_64_bit_seed_works(reader: TokenReader, seed: int) -> None:
    assert one(sampler(reader, seed=seed), logits()) in range(4)


async def test_draws_differ_when_no_seed_is_given(reader: TokenReader) -> None:
    draws = [
        [one(tested, logits()) for _ in range(50)]
        for tested in (sampler(reader, seed=None), sampler(reader, seed=None))
    ]
    assert draws[0] != draws[1]


async def test_generated_ids_are_penalised_when_a_presence_penalty_is_set(reader: TokenReader) -> None:
    tested = sampler(reader, prompt_ids=(3,), temperature=0.0, presence_penalty=1.0)
    # 3 leads 0 by ln(4/3) = 0.29; each id is penalised once, at its first use, and the prompt does not count.
    assert [one(tested, logits()) for _ in range(6)] == [3, 0, 2, 3, 3, 3]


async def test_each_use_is_penalised_when_a_frequency_penalty_is_set(reader: TokenReader) -> None:
    tested = sampler(reader, temperature=0.0, frequency_penalty=1.0)
    assert [one(tested, logits([0.45, 0.1, 0.05, 0.4])) for _ in range(4)] == [0, 3, 0, 3]


async def test_prompt_and_generated_ids_are_penalised_when_a_repetition_penalty_is_set(reader: TokenReader) -> None:
    tested = sampler(reader, prompt_ids=(3,), temperature=0.0, repetition_penalty=2.0)
    # Positive values are divided, negative ones multiplied: either way the id falls.
    values = torch.tensor([1.5, -1.0, 1.2, 2.0])
    assert [one(tested, values) for _ in range(3)] == [0, 2, 3]


@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=["nan", "inf"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_error_is_raised_when_logits_are_not_numbers(reader: TokenReader, bad: float, temperature: float) -> None:
    with pytest.raises(EngineError, match="not numbers"):
        one(sampler(reader, temperature=temperature), torch.tensor([0.0, bad, 1.0, 2.0]))


async def test_each_row_is_drawn_as_if_alone_when_sampled_together(reader: TokenReader) -> None:
    size = 2 * SHORT_LIST
    rows = torch.randn(8, size, generator=torch.Generator().manual_seed(3))
    options: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {},
        {"top_p": 0.5, "temperature": 0.5},
        {"top_p": 0.99, "temperature": 2.0},
        {"top_k": 5},
        {"top_k": SHORT_LIST + 1, "top_p": 0.9},
        {"min_p": 0.2, "temperature": 0.7},
        {"repetition_penalty": 1.5, "presence_penalty": 1.0, "logit_bias": {7: 5.0}},
    ]
    alone = [sampler(reader, prompt_ids=(7,), vocab=size, **option) for option in options]
    together = [sampler(reader, prompt_ids=(7,), vocab=size, **option) for option in options]
    for _ in range(20):
        drawn = [sampled.token_id for sampled in sample(together, rows)]
        assert drawn == [one(tested, row) for tested, row in zip(alone, rows, strict=True)]


async def test_nothing_is_drawn_when_one_row_of_several_is_not_numbers(reader: TokenReader) -> None:
    tested, other = sampler(reader, seed=5), sampler(reader, seed=6)
    with pytest.raises(EngineError):
        sample([tested, other], torch.stack([logits(), torch.full((4,), math.nan)]))
    unharmed = sampler(reader, seed=5)
    assert [one(tested, logits()) for _ in range(20)] == [one(unharmed, logits()) for _ in range(20)]


async def test_log_probabilities_are_the_models_own_when_wanted(reader: TokenReader) -> None:
    tested = sampler(
        reader, temperature=0.5, logprobs=True, top_logprobs=2, top_k=2, logit_bias={1: 100.0}, presence_penalty=1.0
    )
    for _ in range(3):
        (sampled,) = sample([tested], logits().unsqueeze(0))
        assert sampled.token_id == 1
        assert sampled.logprobs is not None
        # Of the logits as they came: no bias, no temperature, no cut.
        assert math.exp(sampled.logprobs.logprob) == pytest.approx(0.1)
        assert [token_id for token_id, _ in sampled.logprobs.top] == [3, 0]
        assert [math.exp(logprob) for _, logprob in sampled.logprobs.top] == pytest.approx([0.4, 0.3])


@pytest.mark.parametrize(
    ("sampling", "top"),
    [
        pytest.param({"logprobs": False}, None, id="not wanted"),
        pytest.param({"logprobs": True}, 0, id="only of the chosen"),
        pytest.param({"logprobs": True, "top_logprobs": 3}, 3, id="of three"),
        pytest.param({"logprobs": True, "top_logprobs": 20}, 4, id="of more than there are tokens"),
    ],
)
async def test_as_many_log_probabilities_come_as_each_row_wants(
    reader: TokenReader, sampling: dict[str, Any], top: int | None
) -> None:
    others = [sampler(reader, logprobs=True, top_logprobs=1), sampler(reader)]
    rows = logits().expand(3, -1)
    first, second, third = sample([others[0], sampler(reader, **sampling), others[1]], rows)
    assert first.logprobs is not None
    assert len(first.logprobs.top) == 1
    assert third.logprobs is None
    assert top == (None if second.logprobs is None else len(second.logprobs.top))


async def test_draw_is_the_same_when_its_step_is_made_again(reader: TokenReader) -> None:
    tested = sampler(reader)
    first = tested.uniform()
    assert tested.uniform() == first
    tested.count(3)
    assert tested.uniform() != first
