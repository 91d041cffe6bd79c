from __future__ import annotations

import pytest

from generation.backends import Backend, BackendHealth, BackendState, DeltaStream, ModelCard
from generation.exceptions import BackendUnavailableError
from generation.replay.readiness import make_ready
from generation.request import GenerationRequest

pytestmark = pytest.mark.django_db


class StagedBackend(Backend):
    """Goes one stage further each time it is asked, from its start on."""

    def __init__(self, *stages: tuple[BackendState, str]) -> None:
        super().__init__("staged")
        self._stages = [BackendHealth(state=state, message=message) for state, message in stages]
        self._started = False

    def start(self) -> None:
        self._started = True

    @property
    def health(self) -> BackendHealth:
        assert self._started
        return self._stages.pop(0)

    def models(self) -> tuple[ModelCard, ...]:
        return ()

    async def stream(self, request: GenerationRequest) -> DeltaStream:
        raise NotImplementedError


def test_each_state_is_told_once_until_the_backend_is_ready() -> None:
    told: list[str] = []
    backend = StagedBackend(
        (BackendState.IDLE, ""),
        (BackendState.LOADING, "loading the tokenizer"),
        (BackendState.LOADING, "loading the model"),
        (BackendState.LOADING, "loading the model"),
        (BackendState.READY, "ready"),
    )
    make_ready(backend, told.append)
    assert told == ["loading the tokenizer", "loading the model"]


def test_the_reason_is_raised_when_the_model_cannot_be_loaded() -> None:
    backend = StagedBackend(
        (BackendState.LOADING, "loading the model"), (BackendState.FAILED, "No model. Run `manage.py fetch_model`.")
    )
    with pytest.raises(BackendUnavailableError, match=r"^No model\. Run `manage\.py fetch_model`\.$"):
        make_ready(backend, lambda line: None)
