"""One streamed HTTP answer of an upstream, opened with retries and read event by event within its limits.

Every way in which a server or the line to it can fail leaves here as an UpstreamError whose code and words tell which.
Nothing is asked again once a byte of the answer has come.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import httpx2

from generation.backends.upstream_kind import UpstreamKind
from generation.backends.upstream_refusal import refusal, retry_after_s
from generation.backends.upstream_request import endpoint, request_body
from generation.exceptions import GenerationError, UpstreamError
from generation.protocol import EventDecoder
from generation.request import GenerationRequest

logger = logging.getLogger(__name__)

#: Bytes of an error's body that are read.
MAX_ERROR_BYTES = 64 * 1024
#: A server that asks for a longer pause than this gets no second try: the client is told instead.
MAX_PAUSE_S = 5.0
FIRST_PAUSE_S = 0.25
#: How long the end of a finished answer is waited for, so that its connection can serve again.
DRAIN_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTarget:
    """Where a request can go: a base URL, its key, and the model's name there."""

    base_url: str
    key: str = field(repr=False)
    kind: UpstreamKind
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamLimits:
    """How long and how much an upstream may take; ``retries`` counts the tries after the first, at each target."""

    connect_timeout_s: float
    first_token_timeout_s: float
    gap_timeout_s: float
    retries: int
    max_event_bytes: int
    max_answer_bytes: int


class _BusyError(Exception):
    """Nothing has come of a request, and another try may help."""

    def __init__(self, error: GenerationError, pause_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.pause_s = pause_s


async def open_reply(
    client: httpx2.AsyncClient, targets: Sequence[UpstreamTarget], request: GenerationRequest, limits: UpstreamLimits
) -> UpstreamReply:
    """Send the request to the first target that takes it. Raises GenerationError, that of the last one tried."""
    for number, target in enumerate(targets, start=1):
        try:
            return await _open_patiently(client, target, request, limits)
        except _BusyError as exc:
            if number == len(targets):
                raise exc.error from exc
            logger.warning("an upstream cannot serve, its fallback is asked: %s", exc)
    raise ValueError("there are no targets")


async def _open_patiently(
    client: httpx2.AsyncClient, target: UpstreamTarget, request: GenerationRequest, limits: UpstreamLimits
) -> UpstreamReply:
    """Try a few times, with growing pauses that no two requests share. Raises _BusyError when none helped."""
    for tried in range(limits.retries + 1):
        try:
            return await _open(client, target, request, limits)
        except _BusyError as exc:
            pause_s = exc.pause_s or FIRST_PAUSE_S * 2**tried
            if tried == limits.retries or pause_s > MAX_PAUSE_S:
                raise
            await asyncio.sleep(pause_s * random.uniform(1, 1.5))
    raise ValueError("retries must not be negative")


async def _open(
    client: httpx2.AsyncClient, target: UpstreamTarget, request: GenerationRequest, limits: UpstreamLimits
) -> UpstreamReply:
    message = client.build_request(
        "POST",
        target.base_url + endpoint(request),
        json=request_body(request, model=target.model, kind=target.kind),
        headers={"Authorization": f"Bearer {target.key}"} if target.key else {},
    )
    deadline = asyncio.get_running_loop().time() + limits.first_token_timeout_s
    try:
        async with asyncio.timeout_at(deadline):
            response = await client.send(message, stream=True)
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as exc:
        error = UpstreamError("The upstream cannot be reached.", code="upstream_unreachable")
        raise _BusyError(error) from exc
    except TimeoutError as exc:
        raise _silent(limits.first_token_timeout_s, "its answer's head") from exc
    except httpx2.HTTPError as exc:
        raise _broken(exc) from exc
    try:
        await _check(response, target.kind)
    except BaseException:
        await response.aclose()
        raise
    return UpstreamReply(response, target, limits, deadline=deadline)


async def _check(response: httpx2.Response, kind: UpstreamKind) -> None:
    """Raise for every response but a stream of events as they are."""
    if response.status_code != 200:
        content = await _read_error(response)
        error = refusal(response.status_code, response.headers, content, kind)
        if response.status_code in {429, 503}:
            raise _BusyError(error, retry_after_s(response.headers))
        raise error
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UpstreamError("The upstream compressed its answer, which nobody asked for.", code="upstream_compressed")
    content_type = response.headers.get("content-type", "none").partition(";")[0].strip().lower()
    if content_type == "application/json":
        raise refusal(500, response.headers, await _read_error(response), kind)
    if content_type != "text/event-stream":
        raise UpstreamError(
            f"The upstream answered with {content_type[:100]}, not with text/event-stream.", code="upstream_malformed"
        )


async def _read_error(response: httpx2.Response) -> bytes:
    """The beginning of an error's body; what does not come soon is done without."""
    content = b""
    try:
        async with asyncio.timeout(MAX_PAUSE_S):
            async for piece in response.aiter_raw():
                content += piece
                if len(content) >= MAX_ERROR_BYTES:
                    break
    except (TimeoutError, httpx2.HTTPError):
        logger.info("the body of an upstream's error %d did not come whole", response.status_code)
    return content


class UpstreamReply:
    """A stream that has begun: read it until it returns None (the end of input), then close it."""

    def __init__(
        self, response: httpx2.Response, target: UpstreamTarget, limits: UpstreamLimits, *, deadline: float
    ) -> None:
        self.target = target
        self._response = response
        self._pieces: AsyncIterator[bytes] = response.aiter_raw()
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        #: By when the next event must have come, by the loop's clock.
        self._deadline = deadline
        self._waits_for = "its first token"
        self._allowed_s = limits.first_token_timeout_s
        self._decoder = EventDecoder(errors="strict")
        self._received_bytes = 0
        self._event_bytes = 0

    async def read(self) -> list[str] | None:
        """Return the data of the events that came next, perhaps none; None at the end. Raises UpstreamError.

        Only whole events count as progress: neither comments nor bytes that come in drips put off the time limit.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                piece = await anext(self._pieces, None)
        except TimeoutError as exc:
            raise _silent(self._allowed_s, self._waits_for) from exc
        except httpx2.HTTPError as exc:
            raise _broken(exc) from exc
        if piece is None:
            return None
        return self._events(piece)

    def begun(self) -> None:
        """The answer has begun: from here on the limit is the gap between two events."""
        self.allow(self._limits.gap_timeout_s)

    def allow(self, allowed_s: float) -> None:
        """Set the limit of the silence that follows."""
        self._waits_for, self._allowed_s = "the next one", allowed_s
        self._deadline = self._loop.time() + allowed_s

    async def close(self, *, finished: bool) -> None:
        """Let go of the connection; after a ``finished`` answer it may serve again, else it is cut off at once."""
        try:
            if finished:
                async with asyncio.timeout(DRAIN_S):
                    while await anext(self._pieces, None) is not None:
                        pass
        except (TimeoutError, RuntimeError, httpx2.HTTPError):
            pass  # a line that cannot be used again is closed like any other
        finally:
            await self._response.aclose()

    def _events(self, piece: bytes) -> list[str]:
        self._received_bytes += len(piece)
        if self._received_bytes > self._limits.max_answer_bytes:
            raise _too_large("The upstream's answer", self._limits.max_answer_bytes)
        try:
            events = self._decoder.push(piece)
        except UnicodeDecodeError as exc:
            raise UpstreamError("The upstream's answer is not UTF-8.", code="upstream_malformed") from exc
        # The rest of a piece is at most a piece: close enough to the size of the unfinished event.
        self._event_bytes = 0 if events else self._event_bytes + len(piece)
        if self._event_bytes > self._limits.max_event_bytes or any(
            len(event) > self._limits.max_event_bytes for event in events
        ):
            raise _too_large("An event of the upstream's answer", self._limits.max_event_bytes)
        return events


def _silent(allowed_s: float, waits_for: str) -> UpstreamError:
    return UpstreamError(
        f"The upstream sent nothing for {allowed_s:g} s; {waits_for} was due.", code="upstream_timeout"
    )


def _broken(exc: httpx2.HTTPError) -> UpstreamError:
    return UpstreamError(f"The connection to the upstream broke ({type(exc).__name__}).", code="upstream_broken")


def _too_large(what: str, limit: int) -> UpstreamError:
    return UpstreamError(f"{what} is larger than the {limit:,} bytes allowed.", code="upstream_too_large")
