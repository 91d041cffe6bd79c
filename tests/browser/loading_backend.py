"""A scripted backend that is loading for as long as the test wants: until a file is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from generation.backends.base import BackendHealth, BackendState
from generation.backends.scripted import ScriptedBackend


class LoadingBackend(ScriptedBackend):
    """Ready once ``ready_file`` exists."""

    def __init__(self, alias: str, *, ready_file: Path, **options: Any) -> None:
        super().__init__(alias, **options)
        self._ready_file = ready_file

    @property
    def health(self) -> BackendHealth:
        if self._ready_file.exists():
            return BackendHealth(state=BackendState.READY)
        return BackendHealth(state=BackendState.LOADING, message="reading the weights")
