from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django.fixtures import Settings

from generation.backends import BackendRegistry, backends
from generation.exceptions import ModelNotFoundError

SCRIPTED = "generation.backends.scripted.ScriptedBackend"


def entry(model: str, **options: Any) -> dict[str, Any]:
    return {"BACKEND": SCRIPTED, "OPTIONS": {"model": model, "pieces": ["x"], **options}}


@pytest.fixture(autouse=True)
def two_backends(settings: Settings) -> Iterator[None]:
    settings.GENERATION_BACKENDS = {"other": entry("model-b"), "default": entry("model-a")}
    yield
    backends.close_all()


def test_instance_is_the_same_when_asked_twice() -> None:
    assert backends["other"] is backends["other"]
    assert backends["other"].alias == "other"


def test_instance_is_one_when_many_threads_ask_first() -> None:
    registry = BackendRegistry()
    together = threading.Barrier(8)
    found: list[object] = []

    def ask() -> None:
        together.wait(10)
        found.append(registry["default"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(map(id, found)))) == (8, 1)


@pytest.mark.parametrize(
    ("name", "alias"),
    [("default", "default"), ("model-a", "default"), ("model-b", "other"), ("other", "other")],
)
def test_backend_is_found_when_named_by_model_or_alias(name: str, alias: str) -> None:
    assert backends.resolve(name) is backends[alias]


def test_error_names_the_models_when_the_name_is_unknown() -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        backends.resolve("gpt-4")
    assert caught.value.message == "There is no model 'gpt-4'. Models here: default, model-a, model-b."
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")


def test_default_backends_models_come_first_when_listed() -> None:
    assert [card.id for card in backends.models()] == ["model-a", "model-b"]


def test_new_instances_are_made_when_settings_change(settings: Settings) -> None:
    before = backends["default"]
    settings.GENERATION_BACKENDS = {"default": entry("model-c")}
    assert backends["default"] is not before
    assert [card.id for card in backends.models()] == ["model-c"]


def test_new_instances_are_made_when_closed() -> None:
    before = backends["default"]
    backends.close_all()
    backends.close_all()
    assert backends["default"] is not before


@pytest.mark.parametrize(
    ("configured", "message"),
    [
        pytest.param(None, 'must be a dict with an entry "default"', id="not a dict"),
        pytest.param({"other": entry("m")}, 'must be a dict with an entry "default"', id="no default"),
        pytest.param({"default": {}}, r'\["default"\] needs "BACKEND"', id="no class"),
        pytest.param({"default": {"BACKEND": "no.such.Class"}}, "cannot be imported", id="no such class"),
        pytest.param({"default": {"BACKEND": "pathlib.Path"}}, "not a Backend class", id="another class"),
        pytest.param({"default": {**entry("m"), "OPTION": {}}}, r"unknown keys \['OPTION'\]", id="misspelt"),
        pytest.param({"default": entry("m", colour="red")}, r'\["OPTIONS"\] do not fit .*colour', id="wrong option"),
        pytest.param({"default": entry("m", echo=True)}, "exactly one of pieces", id="contradicting options"),
    ],
)
def test_settings_are_refused_in_clear_words_when(settings: Settings, configured: Any, message: str) -> None:
    settings.GENERATION_BACKENDS = configured
    with pytest.raises(ImproperlyConfigured, match=message):
        backends["default"]


def test_alias_is_refused_when_there_is_none() -> None:
    with pytest.raises(ImproperlyConfigured, match=r'\["third"\] does not exist\. Entries: other, default\.'):
        backends["third"]
