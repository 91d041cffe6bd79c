"""A request's response format in, the constraint of its sequence out, without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from generation.engine.grammar import Constraint, Grammars
from generation.exceptions import InvalidRequestError
from generation.request import ResponseFormat
from generation.text import Tier, Vocabulary

#: For schemas that are larger than they look; the usual one takes 1 ms, and 0.3 s more when it is the first.
TIMEOUT_S = 5


def grammars_of(vocabulary: Vocabulary, *, end_ids: Collection[int]) -> Grammars | None:
    """The response formats of a tokenizer; None for one whose tokens cannot be read one by one."""
    if vocabulary.tier is not Tier.TABLE:
        return None
    return Grammars(
        [vocabulary.bytes_of(token_id) for token_id in range(len(vocabulary.tokens))],
        special_ids=vocabulary.special,
        end_ids=end_ids,
        encode=lambda text: vocabulary.tokenizer.encode(text, add_special_tokens=False).ids,
    )


async def constraint_for(response_format: ResponseFormat | None, grammars: Grammars | None) -> Constraint | None:
    """Raises InvalidRequestError for a format that cannot be carried out, or takes too long to prepare."""
    if response_format is None:
        return None
    if grammars is None:
        raise _refusal("cannot be carried out with this model: its tokenizer has no bytes for each token")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await asyncio.wrap_future(grammars.constraint(response_format))
    except TimeoutError as exc:
        raise _refusal(f"took more than {TIMEOUT_S} seconds to prepare; use a simpler schema") from exc


def _refusal(problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"'response_format' {problem}.", param="response_format")
