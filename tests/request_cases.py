"""Bodies from public bug reports, with the status and ``param`` that each must get (tests/data/requests.jsonl).

Two of them are large and made here instead of kept: 100,000 open brackets, and a prompt of 160,000 characters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LARGE: list[dict[str, Any]] = [
    {"id": "requests-15", "source": "deep nesting", "status": 400, "param": None, "raw": "5b" * 100_000},
    {
        "id": "requests-27",
        "source": "prompt beyond the context",
        "status": 400,
        "param": "messages",
        "body": {"model": "default", "messages": [{"role": "user", "content": "a b c d " * 20_000}]},
    },
]
_KEPT = Path(__file__).with_name("data") / "requests.jsonl"
REQUESTS: list[dict[str, Any]] = [*map(json.loads, filter(None, _KEPT.read_text().split("\n"))), *LARGE]
#: What only a model's tokenizer can judge.
NEED_A_TOKENIZER = {"requests-22", "requests-27"}


def body_of(case: dict[str, Any]) -> bytes:
    """The bytes to send."""
    return bytes.fromhex(case["raw"]) if "raw" in case else json.dumps(case["body"]).encode()
