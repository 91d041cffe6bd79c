"""A response format in, a constraint for one sequence out: which ids may come next, so that the answer is such JSON.

Formats are compiled in a thread of their own, one after the other, and kept; what cannot be carried out exactly is
refused with the reason. An answer that its length cuts off is the beginning of such JSON.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from generation.exceptions import EngineError, InvalidRequestError
from generation.request import ResponseFormat

ANY_OBJECT = '{"type":"object"}'
MAX_SCHEMA_CHARS = 32_768
#: The library makes a state for each remainder: 83,000 of them take a second, and two such factors their product.
MAX_MULTIPLE = 1_000
KEPT_GRAMMARS = 64
#: A small model can go on with white space for ever.
WHITE_SPACE = r"[\x20\x0A\x0D\x09]{1,32}"
#: Work, not time: 0.2 s to compile and 15 ms a step at the worst. Schemas of a thousand properties need wide rows.
LIMITS = LLParserLimits(initial_lexer_fuel=1_000_000, step_lexer_fuel=200_000, max_items_in_row=20_000)


class Constraint:
    """What one sequence may say next. Used by the engine's thread only."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    def mask(self) -> bytes:
        """A bit for each id of the tokenizer, the lowest first: may it come next? End tokens may when all is said.

        Raises EngineError when that cannot be found out with bounded work.
        """
        mask = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            raise EngineError(f"The response format cannot be kept to: {_reason(self._matcher.get_error())}")
        return mask

    def take(self, token_id: int) -> None:
        """Go on with the id that was chosen."""
        self._matcher.consume_token(token_id)


class Grammars:
    """The response formats of one tokenizer, compiled.

    ``tokens`` are the bytes of each id, special tokens too; ``encode`` gives a text's ids.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        *,
        special_ids: Iterable[int],
        end_ids: Iterable[int],
        encode: Callable[[str], list[int]],
    ) -> None:
        self._vocabulary = _Vocabulary(tokens, special_ids=special_ids, end_ids=end_ids, encode=encode)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammar")
        #: The last two are used by that thread only.
        self._tokenizer: LLTokenizer | None = None
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()

    def constraint(self, response_format: ResponseFormat) -> Future[Constraint]:
        """Begin to make the constraint of one sequence.

        The future raises InvalidRequestError for a format that this tokenizer or the library cannot carry out.
        """
        return self._thread.submit(self._constraint, response_format)

    def close(self) -> None:
        """Give up what is being compiled; idempotent."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _constraint(self, response_format: ResponseFormat) -> Constraint:
        schema = _schema(response_format)
        matcher = self._compiled.pop(schema, None) or self._compile(schema)
        self._compiled[schema] = matcher
        if len(self._compiled) > KEPT_GRAMMARS:
            self._compiled.popitem(last=False)
        # Here and not in the engine's thread: a large one takes most of a second to copy.
        return Constraint(matcher.deep_copy())

    def _compile(self, schema: str) -> LLMatcher:
        if self._tokenizer is None:
            self._tokenizer = self._vocabulary.tokenizer()
        try:
            grammar = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_pattern": WHITE_SPACE})
        except ValueError as exc:
            raise _unusable_schema(str(exc)) from exc
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0, limits=LIMITS)
        first_step = matcher.deep_copy()
        # A schema that nothing satisfies shows only here.
        first_step.compute_bitmask()
        if first_step.is_error():
            raise _unusable_schema(first_step.get_error())
        return matcher


class _Vocabulary:
    """What the library wants to know of a tokenizer."""

    def __init__(
        self,
        tokens: Sequence[bytes],
        *,
        special_ids: Iterable[int],
        end_ids: Iterable[int],
        encode: Callable[[str], list[int]],
    ) -> None:
        self.tokens = tokens
        self.special_token_ids = sorted(special_ids)
        self.bos_token_id = None
        self._end_ids = sorted(end_ids)
        self.eos_token_id = self._end_ids[0] if self._end_ids else -1
        self._encode = encode

    def __call__(self, text: str) -> list[int]:
        return self._encode(text)

    def tokenizer(self) -> LLTokenizer:
        """Build the library's own (0.3 s for 49,152 tokens)."""
        if not self._end_ids:
            raise _refusal("needs a model with an end token, which this one lacks")
        slices = LLTokenizer.json_slices()
        return LLTokenizer(TokenizerWrapper(self), eos_token=self._end_ids, slices=slices)


def _schema(response_format: ResponseFormat) -> str:
    if response_format.schema is None:
        return ANY_OBJECT
    try:
        schema = json.dumps(response_format.schema, ensure_ascii=False)
    except RecursionError as exc:
        raise _refusal("has a schema that is nested too deeply") from exc
    if len(schema) > MAX_SCHEMA_CHARS:
        raise _refusal(f"has a schema of {len(schema):,} characters; at most {MAX_SCHEMA_CHARS:,} are possible")
    multiples = {_numerator(value) for value in _values(response_format.schema, "multipleOf")}
    if math.lcm(*multiples) > MAX_MULTIPLE:
        raise _refusal(
            f"has a schema with 'multipleOf' whose common multiple is above {MAX_MULTIPLE:,}; use simpler ones"
        )
    return schema


def _values(schema: Any, key: str) -> Iterator[Any]:
    """What stands under ``key``, anywhere in the schema."""
    waiting = [schema]
    while waiting:
        match waiting.pop():
            case dict(part):
                yield from (value for name, value in part.items() if name == key)
                waiting.extend(part.values())
            case [*parts]:
                waiting.extend(parts)


def _numerator(value: Any) -> int:
    """The digits of a number as an integer, 0.25 as 25; what is no number is left to the library to refuse."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 1
    digits = Decimal(str(value)).as_tuple()
    exponent = max(0, int(digits.exponent))
    if exponent > len(str(MAX_MULTIPLE)):
        return MAX_MULTIPLE + 1
    return int("".join(map(str, digits.digits))) * 10**exponent or 1


def _reason(error: str) -> str:
    """The first line of one of the library's messages, which can be pages long."""
    return error.strip().partition("\n")[0][:300] or "no reason given"


def _unusable_schema(error: str) -> InvalidRequestError:
    return _refusal(f"has a schema that cannot be carried out: {_reason(error)}")


def _refusal(problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"'response_format' {problem}.", param="response_format")
