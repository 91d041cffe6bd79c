from __future__ import annotations

import pytest

from generation.engine.kv_budget import KVBudget, common_prefix, default_kv_tokens, rounded


@pytest.mark.parametrize(("positions", "whole"), [(0, 0), (1, 128), (128, 128), (129, 256)])
def test_positions_are_counted_in_whole_blocks(positions: int, whole: int) -> None:
    assert rounded(positions) == whole


@pytest.mark.parametrize(
    ("max_sequences", "context_length", "tokens"),
    [
        pytest.param(8, 512, 4096, id="every sequence may fill a short context"),
        pytest.param(8, 131_072, 16_384, id="a long context does not multiply"),
        pytest.param(1, 131_072, 8192, id="one sequence may be long"),
        pytest.param(1, 100, 128, id="whole blocks"),
    ],
)
def test_budget_follows_sequences_and_context_when_none_is_set(
    max_sequences: int, context_length: int, tokens: int
) -> None:
    assert default_kv_tokens(max_sequences=max_sequences, context_length=context_length) == tokens


@pytest.mark.parametrize(
    ("prompt_tokens", "max_tokens", "limit"),
    [
        pytest.param(100, 50, 150, id="as asked"),
        pytest.param(100, 9000, 4096, id="asked beyond the context"),
        pytest.param(100, None, 1024, id="an even share, in whole blocks"),
        pytest.param(700, None, 1280, id="half a share after a long prompt"),
        pytest.param(3900, None, 4000, id="at most all the memory"),
        pytest.param(4000, None, 4001, id="one token more than the memory: refused"),
    ],
)
def test_sequence_may_take(prompt_tokens: int, max_tokens: int | None, limit: int) -> None:
    budget = KVBudget(tokens=4000, max_sequences=4, context_length=4096)
    assert budget.limit(prompt_tokens, max_tokens) == limit


def test_answer_may_fill_a_block_when_shares_are_tiny() -> None:
    assert KVBudget(tokens=1024, max_sequences=100, context_length=512).limit(10, None) == 128


def test_answer_may_fill_the_context_when_the_memory_allows_it() -> None:
    assert KVBudget(tokens=4096, max_sequences=8, context_length=512).limit(10, None) == 512


@pytest.mark.parametrize(
    ("a", "b", "length"),
    [
        ([], [1], 0),
        ([1, 2], [1, 2, 3], 2),
        ([1, 2, 3], [1, 2, 3], 3),
        ([9], [1], 0),
        ([*range(1000)], [*range(777), 0, *range(500)], 777),
        ([*range(1000)], [0, 9, *range(2, 1000)], 1),
    ],
)
def test_common_prefix_is_counted(a: list[int], b: list[int], length: int) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == length
