"""Several chat streams at once over HTTP: what came, when it began, how long it took."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from tests.sse_client import send

#: Ordinary words, so that prompts of any length can be made of them.
TEXT = (
    "the old harbour has a quiet light and every morning people walk along its wall to look at the water and the boats "
    "while someone sells bread near the bridge where two roads meet under a row of tall trees that lose their leaves"
)

Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One stream's text, and when it began and ended, in monotonic seconds."""

    text: str
    first_at: float
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Streams that were asked for at the same moment."""

    began: float
    answers: list[Answer]

    @property
    def took_s(self) -> float:
        """Until the last one had ended."""
        return max(answer.ended_at for answer in self.answers) - self.began

    @property
    def ttfts_s(self) -> list[float]:
        """Each one's time to first token."""
        return [answer.first_at - self.began for answer in self.answers]


async def ask_all(base_url: str, model: str, chats: list[Messages], max_tokens: int) -> Batch:
    """Ask for all chats at once, greedily, and read the answers to their ends."""
    began = time.monotonic()
    answers = await asyncio.gather(*(_ask(base_url, model, messages, max_tokens) for messages in chats))
    return Batch(began=began, answers=list(answers))


def question(number: int, words: int) -> Messages:
    """A chat that no other number's shares a prefix with, of about as many tokens as words."""
    all_words = TEXT.split()
    filler = " ".join(all_words[(number + i) % len(all_words)] for i in range(words))
    return [{"role": "user", "content": f"{number}: {filler}. Tell me a long story about it."}]


async def _ask(base_url: str, model: str, messages: Messages, max_tokens: int) -> Answer:
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "temperature": 0,
        "max_tokens": max_tokens,
    }
    pieces: list[str] = []
    first_at = 0.0
    async with await send(base_url, "POST", "/v1/chat/completions", body=body, timeout_s=300) as response:
        if response.status != 200:
            raise SystemExit(f"{base_url} answered {response.status}: {(await response.body())[:500]!r}")
        buffered = b""
        async for piece in response.pieces():
            buffered += piece
            *frames, buffered = buffered.replace(b"\r\n", b"\n").split(b"\n\n")
            for frame in frames:
                if text := _text(frame):
                    first_at = first_at or time.monotonic()
                    pieces.append(text)
    return Answer(text="".join(pieces), first_at=first_at, ended_at=time.monotonic())


def _text(frame: bytes) -> str:
    if not frame.startswith(b"data: {"):
        return ""
    chunk = json.loads(frame.removeprefix(b"data: "))
    if "error" in chunk:
        raise SystemExit(f"a stream failed: {chunk}")
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
