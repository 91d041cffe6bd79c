"""A local backend whose engine thread dies at the steps of the test's choosing, on a real, tiny model."""

from __future__ import annotations

from typing import Any

from generation.backends.local import LocalBackend
from generation.engine.base import Runner


class DyingBackend(LocalBackend):
    """Raises SystemExit in the first step of each of the first ``deaths`` models that it loads."""

    def __init__(self, alias: str, *, deaths: int, **options: Any) -> None:
        super().__init__(alias, **options)
        self._deaths = deaths

    def _load_runner(self) -> Runner:
        runner = super()._load_runner()
        if self._deaths:
            self._deaths -= 1

            def die(chunks: object) -> Any:
                raise SystemExit("injected")

            runner.step = die  # type: ignore[method-assign]
        return runner
