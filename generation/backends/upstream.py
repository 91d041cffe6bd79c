"""Models of a server with an OpenAI-compatible API: vLLM, SGLang, llama.cpp, Ollama, TGI, OpenAI, or a Streamsite.

In: requests, sent on with nothing of the client's but what it asked. Out: deltas, as from a model in this process. The
upstream's address and key come from the settings only. Imports no torch.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.cookiejar
import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.core.exceptions import ImproperlyConfigured

from generation.backends.base import Backend, BackendHealth, BackendState, DeltaStream, ModelCard
from generation.backends.upstream_answer import Reasoning
from generation.backends.upstream_kind import upstream_kind
from generation.backends.upstream_probe import UpstreamProbe
from generation.backends.upstream_reply import UpstreamLimits, UpstreamReply, UpstreamTarget, open_reply
from generation.backends.upstream_stream import UpstreamStream
from generation.exceptions import BackendUnavailableError, UpstreamError
from generation.request import GenerationRequest

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 2.0


class UpstreamBackend(Backend):
    """Serves models of the server at ``base_url`` (with its ``/v1``), a server of this ``kind`` (see `KINDS`).

    ``models`` names those to serve: a list, or a dict of the name here to the name there; empty means all that the
    upstream lists. ``quirks`` sets flags of the kind otherwise. ``reasoning`` is shown ``inline`` in ``<think>``
    marks, or dropped. ``fallback`` is asked when the upstream cannot be reached or is overloaded: the base URL of a
    server that is the same but for its address, or the alias of another upstream entry.
    """

    def __init__(
        self,
        alias: str,
        *,
        base_url: str,
        key: str = "",
        kind: str = "other",
        models: Mapping[str, str] | Iterable[str] = (),
        quirks: Mapping[str, Any] | None = None,
        fallback: str = "",
        reasoning: Reasoning = "inline",
        connect_timeout_s: float = 5.0,
        first_token_timeout_s: float = 60.0,
        gap_timeout_s: float = 30.0,
        retries: int = 2,
        max_event_bytes: int = 1024 * 1024,
        max_answer_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        super().__init__(alias)
        if reasoning not in {"inline", "drop"}:
            raise ValueError(f"reasoning is {reasoning!r}; it must be 'inline' or 'drop'")
        if retries < 0:
            raise ValueError(f"retries is {retries}; it must be 0 or more")
        self._base_url = _checked_url(base_url, "base_url")
        self._key = key
        self._kind = upstream_kind(kind, quirks or {})
        self._kind_name = kind
        self._names = dict(models) if isinstance(models, Mapping) else {name: name for name in models}
        self._fallback = _checked_url(fallback, "fallback") if "://" in fallback else fallback
        self._reasoning: Reasoning = reasoning
        self._limits = UpstreamLimits(
            connect_timeout_s=connect_timeout_s,
            first_token_timeout_s=first_token_timeout_s,
            gap_timeout_s=gap_timeout_s,
            retries=retries,
            max_event_bytes=max_event_bytes,
            max_answer_bytes=max_answer_bytes,
        )
        self._probe = UpstreamProbe(alias, self._base_url, key, timeout_s=connect_timeout_s)
        self._streams: set[UpstreamStream] = set()
        self._lock = threading.Lock()
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def supports(self) -> frozenset[str]:  # type: ignore[override]  # of the server's kind, not of the class
        return self._kind.supports

    def models(self) -> tuple[ModelCard, ...]:
        listed = self._probe.listed or {}
        # Until the upstream has told its models there is one, by which it can be asked for.
        names = self._known_names() or {self.alias: ""}
        return tuple(
            ModelCard(
                id=name,
                owned_by=self._kind_name,
                title=name,
                description="Served by another machine.",
                context_length=listed.get(theirs),
            )
            for name, theirs in names.items()
        )

    async def stream(self, request: GenerationRequest) -> DeltaStream:
        self.refuse_unsupported(request)
        self.start()
        if not self._known_names():
            await asyncio.to_thread(self._probe.probed.wait, self._limits.connect_timeout_s)
        targets = self._targets(request)
        return UpstreamStream(
            functools.partial(self._open, targets, request),
            request,
            reasoning=self._reasoning,
            on_begin=self._streams.add,
            on_end=self._streams.discard,
        )

    def start(self) -> None:
        self._probe.start()

    @property
    def health(self) -> BackendHealth:
        own, other = self._probe.health, self._fallback_backend()
        if own.state is BackendState.FAILED and other is not None and other._probe.health.state is BackendState.READY:
            return BackendHealth(state=BackendState.READY, message=f"{own.message}; {other.alias} answers in its place")
        return own

    @property
    def active(self) -> int:
        return len(self._streams)

    def close(self) -> None:
        self._probe.close()
        for stream in list(self._streams):
            stream.cancel()
        with self._lock:
            client, self._client = self._client, None
            loop, self._loop = self._loop, None
        if client is not None and loop is not None:
            _run_on(loop, client)

    def _targets(self, request: GenerationRequest) -> list[UpstreamTarget]:
        """Where the request may go, in order. Raises BackendUnavailableError when no model is known."""
        targets = [self._target(request.model)]
        if "://" in self._fallback:
            own = targets[0]
            targets.append(UpstreamTarget(base_url=self._fallback, key=own.key, kind=own.kind, model=own.model))
        other = self._fallback_backend()
        if other is not None and other._known_names() and request.asked_for <= other.supports:
            targets.append(other._target(request.model))
        return targets

    def _fallback_backend(self) -> UpstreamBackend | None:
        """The other entry that ``fallback`` names. Raises ImproperlyConfigured when it is no upstream."""
        if not self._fallback or "://" in self._fallback:
            return None
        from generation.backends import backends  # the registry that holds this one

        other = backends[self._fallback]
        if not isinstance(other, UpstreamBackend):
            raise ImproperlyConfigured(
                f'GENERATION_BACKENDS["{self.alias}"] has the fallback {self._fallback!r}, which is no upstream.'
            )
        return other

    def _target(self, model: str) -> UpstreamTarget:
        names = self._known_names()
        if not names:
            raise BackendUnavailableError(f"No models of {self.alias!r} are known yet: {self.health.message}.")
        theirs = names.get(model, next(iter(names.values())))
        return UpstreamTarget(base_url=self._base_url, key=self._key, kind=self._kind, model=theirs)

    def _known_names(self) -> Mapping[str, str]:
        """Name here to name there of the models that the settings name, else of those that the upstream listed."""
        return self._names or {name: name for name in self._probe.listed or ()}

    async def _open(self, targets: list[UpstreamTarget], request: GenerationRequest) -> UpstreamReply:
        try:
            return await open_reply(await self._shared_client(), targets, request, self._limits)
        except UpstreamError as exc:
            logger.warning("%s: %s", self.alias, exc.message)
            if self.health.state is BackendState.READY:
                self._probe.hurry()
            raise

    async def _shared_client(self) -> httpx2.AsyncClient:
        """The one client of this process, for the loop that asks; closed by `close`."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # In a thread: reading the machine's certificates takes 0.1 s.
            made = await asyncio.to_thread(_make_client, self._limits)
            with self._lock:
                if self._client is None or self._loop is not loop:
                    self._client, self._loop = made, loop
        assert self._client is not None
        return self._client


def _make_client(limits: UpstreamLimits) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"Accept": "text/event-stream", "Accept-Encoding": "identity", "User-Agent": "streamsite"},
        timeout=httpx2.Timeout(None, connect=limits.connect_timeout_s, write=limits.connect_timeout_s),
        # Streams are counted before they get here. Idle connections go before uvicorn's 5 s end them under a request.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2.0),
        follow_redirects=False,
        # Neither proxies nor passwords from the environment: the settings say where requests go.
        trust_env=False,
        # A cookie of one request would travel with those of others.
        cookies=http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=[])),
    )


def _run_on(loop: asyncio.AbstractEventLoop, client: httpx2.AsyncClient) -> None:
    """Close a client on its own loop. Called from any thread; does not wait for the loop that it is called on."""
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if loop.is_closed():
        return  # its connections went with it
    if not loop.is_running():
        if running is None:
            loop.run_until_complete(client.aclose())
        return
    closing = asyncio.run_coroutine_threadsafe(client.aclose(), loop)
    if running is not loop:
        with contextlib.suppress(TimeoutError):
            closing.result(CLOSE_TIMEOUT_S)


def _checked_url(url: str, option: str) -> str:
    """The URL without a slash at its end. Raises ValueError for what is no base URL."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or parts.username:
        # Not shown: what stands where it should not may be a key.
        raise ValueError(f"{option} must look like http://host:8000/v1, without a query, a user or a password")
    return url.rstrip("/")
