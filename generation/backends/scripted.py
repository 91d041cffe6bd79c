"""Backends that answer with fixed pieces at a fixed pace: for tests, demonstrations and load runs. No torch.

In: pieces or texts from the settings. Out: the same deltas as from a model, because stop strings, characters cut in the
middle and ``max_tokens`` (which counts pieces) go through the same text pipeline. A piece is made only when it is
asked for, so ``pieces_made`` shows exactly when a generation ended.
"""

from __future__ import annotations

import builtins
import random
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from generation import exceptions
from generation.backends.base import Backend, ModelCard
from generation.backends.scripted_stream import ScriptedStream
from generation.request import GenerationRequest

#: Bytes per piece where the settings give texts and no size.
PIECE_BYTES = 4


class ScriptedBackend(Backend):
    """Answers every request from a script.

    Give one of ``pieces`` (text or bytes, as they are), ``texts`` (one answer each, taken in turn), ``text_file``
    (one answer) or ``echo`` (the last user message). Texts are cut into pieces of ``byte_pieces`` bytes, a number or a
    range ``(least, most)`` drawn with ``seed``; the answer comes ``repeat`` times over.

    The first piece comes after ``first_delay_s``, each further one ``delay_s`` after the one before. ``fail_at=n``
    raises ``error``, the name of a class of `generation.exceptions` or a built-in one, instead of piece ``n``
    (0-based). With ``prompt_tokens`` the outcome has a usage, pieces being counted as tokens; else it has none. A piece
    is as certain as can be: its log-probability is 0. A bare prompt is not looked at, except by ``echo``.
    """

    supports: ClassVar[frozenset[str]] = frozenset(
        {"include_stop_str_in_output", "logprobs", "max_completion_tokens", "max_tokens", "stop", "top_logprobs"}
    )

    def __init__(
        self,
        alias: str,
        *,
        model: str,
        pieces: Sequence[str | bytes] | None = None,
        texts: Sequence[str] | None = None,
        text_file: str | Path | None = None,
        echo: bool = False,
        byte_pieces: int | tuple[int, int] = PIECE_BYTES,
        repeat: int = 1,
        delay_s: float = 0.0,
        first_delay_s: float = 0.0,
        fail_at: int | None = None,
        error: str = "EngineError",
        prompt_tokens: int | None = None,
        seed: int = 0,
        title: str = "",
        description: str = "",
        licence: str = "",
        origin: str = "",
    ) -> None:
        super().__init__(alias)
        if sum([pieces is not None, texts is not None, text_file is not None, echo]) != 1:
            raise ValueError("give exactly one of pieces, texts, text_file and echo")
        self._card = ModelCard(
            id=model,
            owned_by="streamsite",
            title=title or model,
            description=description,
            licence=licence,
            origin=origin,
        )
        self._pieces = pieces
        self._texts = texts
        self._text_file = text_file
        self._least, self._most = (byte_pieces, byte_pieces) if isinstance(byte_pieces, int) else byte_pieces
        if not 1 <= self._least <= self._most:
            raise ValueError(f"byte_pieces is {byte_pieces!r}; it must be a number from 1 on, or (least, most)")
        self._repeat = repeat
        self._delay_s = delay_s
        self._first_delay_s = first_delay_s
        self._fail_at = fail_at
        self._error = _error_class(error)
        self._prompt_tokens = prompt_tokens
        self._seed = seed
        self._lock = threading.Lock()
        self._requests = 0
        self._streams: set[ScriptedStream] = set()
        #: Pieces made so far by all streams together.
        self.pieces_made = 0

    def models(self) -> tuple[ModelCard, ...]:
        return (self._card,)

    async def stream(self, request: GenerationRequest) -> ScriptedStream:
        self.refuse_unsupported(request)
        with self._lock:
            turn, self._requests = self._requests, self._requests + 1
        return ScriptedStream(
            self._script(request, turn),
            request=request,
            first_delay_s=self._first_delay_s,
            delay_s=self._delay_s,
            prompt_tokens=self._prompt_tokens,
            on_begin=self._streams.add,
            on_end=self._streams.discard,
        )

    @property
    def active(self) -> int:
        return len(self._streams)

    def close(self) -> None:
        for stream in list(self._streams):
            stream.cancel()

    def answer(self, request: GenerationRequest, turn: int) -> str:
        """The text of the ``turn``-th request (0-based), where there are no ready pieces."""
        if self._texts is not None:
            return self._texts[turn % len(self._texts)]
        if self._text_file is not None:
            return Path(self._text_file).read_text(encoding="utf-8")
        return last_user_message(request)

    def _script(self, request: GenerationRequest, turn: int) -> Iterator[bytes]:
        """Make the pieces one by one, counting them, until the end or the failure."""
        if self._pieces is not None:
            pieces = [piece.encode() if isinstance(piece, str) else piece for piece in self._pieces]
        else:
            pieces = list(cut(self.answer(request, turn).encode(), self._least, self._most, random.Random(self._seed)))
        for number, piece in enumerate(pieces * self._repeat):
            if number == self._fail_at:
                raise self._error(f"The script fails here, after {number} pieces.")
            with self._lock:
                self.pieces_made += 1
            yield piece
        if self._fail_at is not None and self._fail_at >= len(pieces) * self._repeat:
            raise self._error("The script fails here, at its end.")


class DemoScriptsBackend(ScriptedBackend):
    """Shows the hard cases of streaming text: short answers in many scripts, emoji and flags, in pieces of 1-5 bytes.

    A message that names scripts or languages gets those, any other all of them, one a line with its name.
    """

    def __init__(self, alias: str, *, model: str = "demo-scripts", delay_s: float = 1 / 30, seed: int = 0) -> None:
        super().__init__(
            alias,
            model=model,
            text_file=Path(__file__).with_name("demo_scripts.txt"),
            byte_pieces=(1, 5),
            delay_s=delay_s,
            seed=seed,
            title="Demo: scripts and emoji",
            description="Fixed texts in twelve scripts, with emoji and flags, cut in the middle of characters. Name a "
            "script or language to see that one.",
            licence="MIT",
            origin="written for Streamsite",
        )

    def answer(self, request: GenerationRequest, turn: int) -> str:
        lines = [line.split("\t") for line in super().answer(request, turn).splitlines()]
        asked = set(re.findall(r"\w+", last_user_message(request).casefold()))
        named = [(title, text) for title, keywords, text in lines if asked.intersection(keywords.split())]
        if len(named) == 1:
            return named[0][1]
        return "\n".join(f"{title}: {text}" for title, text in named or [(title, text) for title, _, text in lines])


def cut(text: bytes, least: int, most: int, draw: random.Random) -> Iterator[bytes]:
    """Cut bytes into pieces of ``least`` to ``most``, wherever that falls in a character."""
    start = 0
    while start < len(text):
        end = start + draw.randint(least, most)
        yield text[start:end]
        start = end


def last_user_message(request: GenerationRequest) -> str:
    """The text that asks, or nothing."""
    if isinstance(request.prompt, str):
        return request.prompt
    return next((message.content for message in reversed(request.messages) if message.role == "user"), "")


def _error_class(name: str) -> type[Exception]:
    found = getattr(exceptions, name, None) or getattr(builtins, name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise ValueError(f"error is {name!r}; it must name an exception")
    return found
