"""Bytes of a body in, a JSON object out that every later stage can carry: parsed, stored and written again.

Refused here, whatever field it stands in: what is no JSON or no UTF-8, a field named twice, half a surrogate pair, a
number beyond a float's range, and nesting so deep that a recursive reader (a database's JSON, ours) would fail on it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from generation.exceptions import InvalidRequestError

#: Real schemas of tools stay below 20; jsonb and Python's own walkers fail somewhere in the hundreds.
MAX_DEPTH = 100


def load_json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises InvalidRequestError for anything else, absurd nesting included."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_unique_keys)
    except UnicodeDecodeError as exc:
        raise InvalidRequestError("The body is not valid UTF-8.", code="invalid_json") from exc
    except RecursionError as exc:
        raise InvalidRequestError("The body's JSON is nested too deeply.", code="invalid_json") from exc
    except ValueError as exc:
        raise InvalidRequestError(f"The body is not valid JSON: {exc}.", code="invalid_json") from exc
    if not isinstance(value, dict):
        raise InvalidRequestError("The body must be a JSON object.", code="invalid_json")
    for name, field in value.items():
        _check_values(field, param=name if name.isidentifier() else None)
    # Valid UTF-8 holds no surrogates; an escape can still make one.
    if b"\\ud" in body.lower():
        _refuse_lone_surrogates(value)
    return value


def _check_values(field: object, *, param: str | None) -> None:
    """Walk a field without recursion."""
    level = [field]
    for _ in range(MAX_DEPTH):
        if any(isinstance(value, float) and not math.isfinite(value) for value in level):
            raise InvalidRequestError("A number is beyond the range of a float.", param=param, code="invalid_json")
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise InvalidRequestError("The body's JSON is nested too deeply.", param=param, code="invalid_json")


def _refuse_lone_surrogates(fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        try:
            json.dumps({name: value}, ensure_ascii=False).encode()
        except UnicodeEncodeError as exc:
            param = name if name.isidentifier() else None
            raise InvalidRequestError(
                "A string holds half of a surrogate pair, which is no character.", param=param, code="invalid_json"
            ) from exc


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("an object names the same field twice")
    return fields
