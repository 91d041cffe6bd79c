from __future__ import annotations

from typing import Any

import pytest

from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenReader
from generation.output import StopReason
from generation.request import SamplingParams


@pytest.fixture
async def reader() -> TokenReader:
    return TokenReader()


def sequence(reader: TokenReader, *, prompt: int = 3, **sampling: Any) -> Sequence:
    return Sequence(
        prompt_ids=list(range(10, 10 + prompt)),
        sampling=SamplingParams(**sampling),
        end_ids=frozenset({2}),
        stop_ids=frozenset({5}),
        reader=reader,
    )


async def test_prompt_comes_in_chunks_when_it_is_long(reader: TokenReader) -> None:
    long = sequence(reader, prompt=5)
    chunks = []
    while long.is_prefilling:
        chunk = long.next_chunk(2)
        chunks.append((chunk.token_ids, chunk.wants_token))
        long.computed += len(chunk.token_ids)
    assert chunks == [([10, 11], False), ([12, 13], False), ([14], True)]


async def test_last_token_is_the_chunk_when_decoding(reader: TokenReader) -> None:
    decoding = sequence(reader)
    decoding.computed = 3
    decoding.append(20)
    decoding.append(21)
    chunk = decoding.next_chunk(2)
    assert (chunk.token_ids, chunk.wants_token) == ([21], True)


@pytest.mark.parametrize(
    ("ids", "sampling", "limit", "expected"),
    [
        pytest.param([7, 8], {}, 99, [None, None], id="goes on"),
        pytest.param([7, 2], {}, 99, [None, StopReason.EOS], id="end token"),
        pytest.param([7, 2], {"ignore_eos": True}, 99, [None, None], id="end token ignored"),
        pytest.param([7, 5], {}, 99, [None, StopReason.STOP_TOKEN], id="stop token"),
        pytest.param([7, 5], {"ignore_eos": True}, 99, [None, StopReason.STOP_TOKEN], id="stop token, end ignored"),
        pytest.param([7, 8], {"max_tokens": 2}, 99, [None, StopReason.LENGTH], id="length"),
        pytest.param([7, 2], {"max_tokens": 2}, 99, [None, StopReason.EOS], id="end token on the last allowed"),
        pytest.param([7, 5], {"max_tokens": 2}, 99, [None, StopReason.STOP_TOKEN], id="stop token on the last allowed"),
        pytest.param([7, 8], {}, 5, [None, StopReason.CONTEXT], id="context full"),
        pytest.param([7, 8], {"max_tokens": 2}, 5, [None, StopReason.LENGTH], id="length and context at once"),
    ],
)
async def test_sequence_ends_when(
    reader: TokenReader,
    ids: list[int],
    sampling: dict[str, Any],
    limit: int,
    expected: list[StopReason | None],
) -> None:
    tested = sequence(reader, **sampling)
    tested.limit = limit
    assert [tested.append(token_id) for token_id in ids] == expected


async def test_ends_are_forbidden_when_min_tokens_is_not_reached(reader: TokenReader) -> None:
    tested = sequence(reader, min_tokens=2)
    assert set(tested.forbidden_ids()) == {2, 5}
    tested.append(7)
    assert set(tested.forbidden_ids()) == {2, 5}
    tested.append(7)
    assert tested.forbidden_ids() == []
