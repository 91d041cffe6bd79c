"""Asks an upstream now and then which models it serves, in a thread of its own; tells its health.

A server that is away is no reason not to start: its health says so until it is there. Requests do not wait for the
probe, but for its first answer where the settings name no models.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

import httpx2

from generation.backends.base import BackendHealth, BackendState

logger = logging.getLogger(__name__)

#: Seconds between two probes of a server that answers, and of one that does not.
EVERY_S = 30.0
AGAIN_S = 3.0
MAX_LIST_BYTES = 4 * 1024 * 1024


class UpstreamProbe:
    """``listed`` maps the models that the upstream told of to their context lengths, None before it told."""

    def __init__(self, alias: str, base_url: str, key: str, *, timeout_s: float) -> None:
        self.health = BackendHealth(state=BackendState.IDLE)
        self.listed: dict[str, int | None] | None = None
        #: Set after the first probe, whatever came of it.
        self.probed = threading.Event()
        self._alias = alias
        self._url = f"{base_url}/models"
        self._key = key
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin probing. Idempotent, returns at once."""
        with self._lock:
            if self._thread is None and not self._closed:
                self.health = BackendHealth(state=BackendState.LOADING, message="asking the upstream for its models")
                self._thread = threading.Thread(target=self._run, name=f"probe-{self._alias}", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread. Idempotent; waits for a probe that is under way, no longer than its time-out."""
        with self._lock:
            self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(self._timeout_s)

    def hurry(self) -> None:
        """Probe now: a request has just found the upstream away."""
        self._wake.set()

    def _run(self) -> None:
        with httpx2.Client(timeout=self._timeout_s, trust_env=False) as client:
            while not self._closed:
                self._wake.clear()
                self._note(self._probe(client))
                if not self._closed:
                    self._wake.wait(EVERY_S if self.health.state is BackendState.READY else AGAIN_S)

    def _note(self, health: BackendHealth) -> None:
        """Take the new health, and log what has changed."""
        before, self.health = self.health, health
        self.probed.set()
        if health.state is BackendState.FAILED and health != before:
            logger.warning("%s: %s", self._alias, health.message)
        elif before.state is BackendState.FAILED and health.state is BackendState.READY:
            logger.info("%s: the upstream is there again", self._alias)

    def _probe(self, client: httpx2.Client) -> BackendHealth:
        """Ask once. A server without this route may serve all the same."""
        try:
            status, content = self._get(client)
        except (httpx2.HTTPError, TimeoutError) as exc:
            return _failed(f"the upstream cannot be reached ({type(exc).__name__})")
        if status in {401, 403}:
            return _failed(f"the upstream does not accept this server's key (it answered {status})")
        if status in {404, 405}:
            return BackendHealth(state=BackendState.READY, message="the upstream does not list its models")
        if status != 200:
            return _failed(f"the upstream answered {status} when asked for its models")
        try:
            self.listed = _models(json.loads(content))
        except (ValueError, RecursionError):
            return _failed("the upstream's list of models cannot be read")
        return BackendHealth(state=BackendState.READY, message=f"the upstream lists {len(self.listed)} models")

    def _get(self, client: httpx2.Client) -> tuple[int, bytes]:
        headers = {"Accept-Encoding": "identity", "User-Agent": "streamsite"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        give_up_at = time.monotonic() + self._timeout_s
        content = b""
        with client.stream("GET", self._url, headers=headers) as response:
            for piece in response.iter_raw():
                content += piece
                if len(content) > MAX_LIST_BYTES or time.monotonic() > give_up_at:
                    raise TimeoutError
            return response.status_code, content


def _models(body: Any) -> dict[str, int | None]:
    """Model ids with their context lengths where they are told (vLLM, SGLang). Raises ValueError."""
    entries = body.get("data") if isinstance(body, dict) else None
    if not isinstance(entries, list):
        raise ValueError("no list of models")
    models: dict[str, int | None] = {}
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            length = entry.get("max_model_len")
            models[entry["id"]] = length if isinstance(length, int) else None
    return models


def _failed(message: str) -> BackendHealth:
    return BackendHealth(state=BackendState.FAILED, message=message)
