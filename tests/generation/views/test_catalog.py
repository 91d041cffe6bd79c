"""Models, liveness and readiness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from generation.recording import get_writer
from generation.streaming import live

pytestmark = pytest.mark.django_db(transaction=True)


async def test_models_are_listed_with_the_default_first() -> None:
    body = (await AsyncClient().get("/v1/models")).json()
    assert body["object"] == "list"
    assert body["data"][0]["id"] == "scripted"
    assert {model["object"] for model in body["data"]} == {"model"}
    assert set(body["data"][0]) == {"id", "object", "created", "owned_by"}


@pytest.mark.parametrize(("name", "found"), [("default", "scripted"), ("scripted-slow", "scripted-slow")])
async def test_one_model_is_found_by_its_name_or_as_default(name: str, found: str) -> None:
    assert (await AsyncClient().get(f"/v1/models/{name}")).json()["id"] == found


async def test_unknown_model_is_404_with_the_names_there_are() -> None:
    response = await AsyncClient().get("/v1/models/a/b")
    assert response.status_code == 404
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "scripted-slow" in error["message"]


async def test_healthz_is_ok_without_looking_at_anything() -> None:
    response = await AsyncClient().get("/healthz")
    assert (response.status_code, response.json(), response["Cache-Control"]) == (200, {"status": "ok"}, "no-store")


async def test_readyz_tells_each_backend() -> None:
    response = await AsyncClient().get("/readyz")
    assert response.status_code == 200
    body = response.json()
    assert (body["status"], body["database"], body["streams"]) == ("ready", "ok", 0)
    assert body["backends"]["default"] == {"state": "ready", "message": ""}


async def test_readyz_is_503_while_shutting_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "draining", True)
    response = await AsyncClient().get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "draining")


async def test_readyz_is_503_when_the_database_is_away(tmp_path: Path) -> None:
    database = connections.settings["default"]
    name = database["NAME"]
    # The view's thread keeps its connection otherwise.
    await sync_to_async(connections.close_all)()
    database["NAME"] = str(tmp_path / "missing" / "db.sqlite3")
    try:
        response = await AsyncClient().get("/readyz")
    finally:
        await sync_to_async(connections.close_all)()
        database["NAME"] = name
    assert (response.status_code, response.json()["status"]) == (503, "no_database")


async def test_metrics_count_ended_streams() -> None:
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
    client = AsyncClient()
    before = samples((await client.get("/metrics")).content.decode())
    await client.post("/v1/chat/completions", json.dumps(body), content_type="application/json")
    assert get_writer().flush()
    response = await client.get("/metrics")
    after = samples(response.content.decode())
    assert response["Content-Type"].startswith("text/plain; version=")
    for name in (
        'streamsite_streams_ended_total{gen_ai_request_model="scripted",stop_reason="eos"}',
        'gen_ai_server_time_to_first_token_seconds_count{gen_ai_request_model="scripted"}',
        'gen_ai_server_time_per_output_token_seconds_count{gen_ai_request_model="scripted"}',
        'gen_ai_server_request_duration_seconds_count{gen_ai_request_model="scripted"}',
    ):
        assert after[name] == before.get(name, 0) + 1


async def test_metrics_are_not_for_the_public() -> None:
    class Public(AsyncClient):
        def _base_scope(self, **request: Any) -> dict[str, Any]:
            return super()._base_scope(**request) | {"client": ["8.8.8.8", 50000]}

    assert (await Public().get("/metrics")).status_code == 403


def samples(text: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}
