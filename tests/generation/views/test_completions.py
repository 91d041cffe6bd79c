"""The completion routes with a model and its tokenizer behind them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import AsyncClient

from generation.models import Stream
from generation.recording import get_writer
from tests.request_cases import NEED_A_TOKENIZER, REQUESTS
from tests.tiny_model import build_tiny_model

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("tiny-model"), do_sample=False)


@pytest.fixture(autouse=True)
def _tiny_model(settings: Any, tiny_folder: Path) -> None:
    settings.GENERATION_BACKENDS = {
        "default": {
            "BACKEND": "generation.backends.local.LocalBackend",
            "OPTIONS": {"model": str(tiny_folder), "weights": "f32"},
        }
    }


async def post(path: str, **body: Any) -> Any:
    return await AsyncClient().post(path, json.dumps(body), content_type="application/json")


@pytest.mark.parametrize(
    "case", [case for case in REQUESTS if case["id"] in NEED_A_TOKENIZER], ids=lambda case: case["id"]
)
async def test_request_that_a_tokenizer_judges_gives_the_listed_status_and_param(case: dict) -> None:
    response = await post("/v1/chat/completions", **case["body"])
    assert response.status_code == case["status"]
    assert response.json()["error"]["param"] == case["param"]


async def test_answers_differ_by_their_seeds_and_are_those_of_each_seed_alone() -> None:
    asked = {
        "model": "default",
        "messages": [{"role": "user", "content": "Tea?"}],
        "max_tokens": 12,
        "temperature": 1.0,
    }
    several = (await post("/v1/chat/completions", **asked, n=3, seed=7)).json()
    alone = [(await post("/v1/chat/completions", **asked, seed=seed)).json() for seed in (7, 8, 9)]
    texts = [choice["message"]["content"] for choice in several["choices"]]
    assert texts == [one["choices"][0]["message"]["content"] for one in alone]
    assert len(set(texts)) == 3
    assert several["usage"]["prompt_tokens"] == alone[0]["usage"]["prompt_tokens"]
    assert several["usage"]["completion_tokens"] == sum(one["usage"]["completion_tokens"] for one in alone)


async def test_log_probabilities_of_a_bare_prompt_are_the_models_own_and_recorded() -> None:
    response = await post(
        "/v1/completions", model="default", prompt="Tea is", max_tokens=4, logprobs=2, ignore_eos=True
    )
    choice = response.json()["choices"][0]
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == len(logprobs["token_logprobs"]) == len(logprobs["text_offset"]) > 0
    assert all(len(top) in (2, 3) and max(top.values()) <= 0 for top in logprobs["top_logprobs"])
    assert get_writer().flush()
    stream = await Stream.objects.aget()
    assert (stream.endpoint, stream.messages) == ("completions", [{"role": "prompt", "content": "Tea is"}])
    assert stream.proof in ("equal", "invalid_bytes")
    assert stream.wire_id.startswith("cmpl-")
