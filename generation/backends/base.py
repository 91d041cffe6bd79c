"""The one interface behind which every model lives: a `Backend` makes `DeltaStream`s.

In: a frozen `GenerationRequest`. Out: an async iterator of `Delta`, then an `Outcome`.
Nothing runs before the first ``__anext__``, so a stream that is never read costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from generation.exceptions import InvalidRequestError
from generation.output import Delta, Outcome
from generation.request import GenerationRequest
from generation.text import Proof


class BackendState(StrEnum):
    """Where a backend is in its life; requests made while it loads wait in its queue."""

    IDLE = "idle"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendHealth:
    """A backend's state, with a sentence for people (what is being loaded, or what went wrong)."""

    state: BackendState
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """A model that a backend serves, as ``/v1/models`` and the page list it."""

    id: str
    owned_by: str
    title: str
    description: str = ""
    licence: str = ""
    origin: str = ""
    context_length: int | None = None


class DeltaStream(ABC):
    """One generation in flight: iterate for deltas, then read ``outcome``.

    ``__anext__`` raises StopAsyncIteration at the end, after ``outcome`` is set, and a `GenerationError` when the
    generation failed. After ``cancel`` it yields at most what was already queued and ends. Used by one reader.
    """

    def __init__(self) -> None:
        #: Set before the iteration ends normally.
        self.outcome: Outcome | None = None
        #: When generation began (left the queue); None before, or when the backend cannot know.
        self.begun_at: float | None = None
        #: Monotonic time each token was made, one per generated token; empty when the backend does not know.
        self.token_times: list[float] = []
        #: When the first token came, where the times of the others are not known one by one.
        self.first_token_at: float | None = None
        #: The generated ids, parallel to ``token_times``; None for backends without tokens of their own.
        self.token_ids: list[int] | None = None
        #: Number of prompt tokens, when known.
        self.prompt_tokens: int | None = None
        #: How many of them were there from earlier generations, when known.
        self.cached_tokens: int | None = None
        #: The id that an upstream gave its answer.
        self.upstream_id = ""
        #: Called once, from any thread, when generation has really ended: (monotonic time, tokens made by
        #: then, None if that is not known).
        self.on_stopped: Callable[[float, int | None], None] | None = None

    def __aiter__(self) -> Self:
        return self

    @property
    def begun(self) -> bool:
        """Whether generation has left the queue, as far as that is known now."""
        return self.begun_at is not None

    def prove(self, text: str, *, cut: bool) -> Proof | None:
        """Compare the joined deltas with the whole decode of the ids; None for backends without ids of their own.

        ``cut``: the stream was not read to its end. Called once, after the last read, from another thread.
        """
        return None

    async def admitted(self) -> bool:
        """Wait until the request is taken on or refused by a server elsewhere; False: the first read raises why.

        May be called before the first read, and begins such a request. Here it is taken on already.
        """
        return True

    @abstractmethod
    async def __anext__(self) -> Delta: ...

    @abstractmethod
    def cancel(self) -> None:
        """End the generation before its next step. Thread-safe, idempotent, never blocks; legal before any read."""


class Backend(ABC):
    """Makes streams for the models it serves; one instance per settings entry and process.

    Subclasses take their options as keyword arguments after ``alias`` and do no work in ``__init__``.
    """

    #: Optional request fields (wire names) this backend carries out; any other that is asked for is a 400.
    supports: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, alias: str) -> None:
        self.alias = alias

    @abstractmethod
    def models(self) -> tuple[ModelCard, ...]:
        """The models served, the default one first. Cheap; never loads anything."""

    @abstractmethod
    async def stream(self, request: GenerationRequest) -> DeltaStream:
        """Check the request against this backend's limits and return its stream, not yet begun.

        Raises InvalidRequestError (with ``param``) for what the backend cannot carry out,
        BackendUnavailableError when it never will (its model failed to load).
        """

    def start(self) -> None:  # noqa: B027  (most backends load nothing)
        """Begin loading in the background. Idempotent, returns at once."""

    @property
    def health(self) -> BackendHealth:
        """State now; a backend that needs no loading is always ready."""
        return BackendHealth(state=BackendState.READY)

    def tokenizer_tier(self) -> str | None:
        """How this backend turns ids into text (``table`` or ``window``); None where it makes text itself.

        Loads the tokenizer if need be. Raises BackendUnavailableError when there is none, or one that cannot be
        streamed exactly (code ``unsupported_tokenizer``).
        """
        return None

    def spell(self, token_ids: Sequence[int]) -> list[bytes] | None:
        """What each token adds to a text: bytes that may be part of a character.

        None where this process has no tokenizer (yet). Never loads anything.
        """
        return None

    @property
    def active(self) -> int:
        """Sequences that hold resources now (queued or running)."""
        return 0

    def close(self) -> None:  # noqa: B027  (most backends hold nothing)
        """Cancel everything and free threads and memory. Idempotent; blocks for at most a few seconds."""

    def refuse_unsupported(self, request: GenerationRequest) -> None:
        """Raise InvalidRequestError for the first asked-for field outside ``supports``."""
        # Tools first: what is said about them makes no sense without them.
        for name in sorted(request.asked_for - self.supports, key=lambda name: (name != "tools", name)):
            raise InvalidRequestError(
                f"'{name}' is not supported by the model '{request.model}'. Leave it out, or choose another model.",
                param=name,
                code="unsupported_parameter",
            )
