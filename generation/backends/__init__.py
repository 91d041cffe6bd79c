"""The process's backends, made from the setting ``GENERATION_BACKENDS`` as Django makes its caches.

``backends["alias"]`` is one instance per alias and process; ``backends.resolve(name)`` finds the one that serves a
model. Usable from any thread.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from generation.backends.base import Backend, BackendHealth, BackendState, DeltaStream, ModelCard
from generation.exceptions import ModelNotFoundError

__all__ = [
    "DEFAULT_ALIAS",
    "Backend",
    "BackendHealth",
    "BackendRegistry",
    "BackendState",
    "DeltaStream",
    "ModelCard",
    "backends",
]

DEFAULT_ALIAS = "default"
#: Settings whose change makes every backend's answers stale.
RELEVANT_SETTINGS = frozenset(
    {"GENERATION_BACKENDS", "STREAMSITE_ENGINE", "STREAMSITE_MODEL", "STREAMSITE_VAR", "STREAMSITE_WEIGHTS"}
)


class BackendRegistry:
    """Makes each backend at its first use and keeps it until `close_all`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._made: dict[str, Backend] = {}

    def __getitem__(self, alias: str) -> Backend:
        """The backend of this alias. Raises ImproperlyConfigured when the settings have none or a wrong one."""
        with self._lock:
            if alias not in self._made:
                self._made[alias] = _make(alias, _settings())
            return self._made[alias]

    def __iter__(self) -> Iterator[Backend]:
        """All backends, in the order of the settings, the default one first."""
        for alias in sorted(_settings(), key=lambda alias: alias != DEFAULT_ALIAS):
            yield self[alias]

    def resolve(self, model: str) -> Backend:
        """The backend that serves ``model``: a model's id, an alias, or ``default``. Raises ModelNotFoundError."""
        if model in _settings():
            return self[model]
        for backend in self:
            if any(card.id == model for card in backend.models()):
                return backend
        names = ", ".join([DEFAULT_ALIAS, *(card.id for card in self.models())])
        raise ModelNotFoundError(f"There is no model '{model}'. Models here: {names}.", param="model")

    def models(self) -> tuple[ModelCard, ...]:
        """Every model served, the default backend's first."""
        return tuple(card for backend in self for card in backend.models())

    def start_all(self) -> None:
        """Begin loading every backend in the background."""
        atexit.register(self.close_all)
        for backend in self:
            backend.start()

    def close_all(self) -> None:
        """Close every backend made so far and forget it; the next use makes a new one. Idempotent."""
        with self._lock:
            made, self._made = self._made, {}
        for backend in made.values():
            backend.close()


backends = BackendRegistry()


def _forget(*, setting: str, **_: Any) -> None:
    if setting in RELEVANT_SETTINGS:
        backends.close_all()


setting_changed.connect(_forget, dispatch_uid="generation.backends")


def _settings() -> dict[str, dict[str, Any]]:
    configured = getattr(settings, "GENERATION_BACKENDS", None)
    if not isinstance(configured, dict) or DEFAULT_ALIAS not in configured:
        raise ImproperlyConfigured(
            f'GENERATION_BACKENDS must be a dict with an entry "{DEFAULT_ALIAS}", like '
            '{"default": {"BACKEND": "generation.backends.local.LocalBackend", "OPTIONS": {}}}.'
        )
    return configured


def _make(alias: str, configured: dict[str, dict[str, Any]]) -> Backend:
    place = f'GENERATION_BACKENDS["{alias}"]'
    if alias not in configured:
        raise ImproperlyConfigured(f"{place} does not exist. Entries: {', '.join(configured)}.")
    entry = configured[alias]
    if not isinstance(entry, dict) or not isinstance(entry.get("BACKEND"), str):
        raise ImproperlyConfigured(f'{place} needs "BACKEND", the dotted path of a Backend class.')
    if unknown := entry.keys() - {"BACKEND", "OPTIONS"}:
        raise ImproperlyConfigured(f"{place} has unknown keys {sorted(unknown)}; it may have BACKEND and OPTIONS.")
    try:
        backend_class = import_string(entry["BACKEND"])
    except ImportError as exc:
        raise ImproperlyConfigured(f'{place}["BACKEND"] cannot be imported: {exc}') from exc
    if not (isinstance(backend_class, type) and issubclass(backend_class, Backend)):
        raise ImproperlyConfigured(f'{place}["BACKEND"] is {entry["BACKEND"]}, which is not a Backend class.')
    try:
        return backend_class(alias, **entry.get("OPTIONS", {}))
    except (TypeError, ValueError) as exc:
        raise ImproperlyConfigured(f'{place}["OPTIONS"] do not fit {entry["BACKEND"]}: {exc}') from exc
