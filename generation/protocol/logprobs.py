"""Log-probabilities on the wire: entries of a chat, and the parallel lists of the older completions API.

In: the `TokenLogprob`s of deltas, in order. Out: OpenAI's JSON. A token that is part of a character is exact in its
bytes only; its text shows U+FFFD.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from generation.output import TokenLogprob


def chat_logprobs(entries: Sequence[TokenLogprob]) -> dict[str, Any]:
    """The ``logprobs`` object of a chat's choice."""
    return {
        "content": [
            {**_chat_entry(entry), "top_logprobs": [_chat_entry(one) for one in entry.top]} for entry in entries
        ]
    }


class TextLogprobs:
    """Makes the ``logprobs`` objects of one choice of a text completion; ``text_offset`` runs on from call to call."""

    def __init__(self) -> None:
        self._characters = 0

    def push(self, entries: Sequence[TokenLogprob]) -> dict[str, Any]:
        offsets = []
        for entry in entries:
            # A token that goes on with a character begins where that character does.
            inside = bool(entry.data) and entry.data[0] & 0xC0 == 0x80
            offsets.append(max(0, self._characters - inside))
            self._characters += sum(byte & 0xC0 != 0x80 for byte in entry.data)
        return {
            "tokens": [_text_token(entry) for entry in entries],
            "token_logprobs": [entry.logprob for entry in entries],
            # The chosen token is always among them, as OpenAI's servers have it.
            "top_logprobs": [{_text_token(one): one.logprob for one in (*entry.top, entry)} for entry in entries],
            "text_offset": offsets,
        }


def _chat_entry(entry: TokenLogprob) -> dict[str, Any]:
    return {"token": entry.text, "logprob": entry.logprob, "bytes": list(entry.data)}


def _text_token(entry: TokenLogprob) -> str:
    """The token as a key: there are no bytes beside it to tell one part of a character from another."""
    try:
        return entry.data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in entry.data)
