"""Who gets in at ``/v1`` and with what limits, through the whole stack of middleware."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from generation.access import create_key, revoke_keys
from generation.backends import backends
from generation.models import ApiKey, Stream
from generation.recording import get_writer
from generation.request import ChatMessage, GenerationRequest
from generation.streaming import Origin, begin, live

pytestmark = pytest.mark.django_db(transaction=True)

CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada", password="secret")


@pytest.fixture
def key(ada: User) -> tuple[ApiKey, str]:
    return create_key(ada, "tests")


async def post(client: AsyncClient | None = None, *, key: str | None = None, **fields: Any) -> Any:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return await (client or AsyncClient()).post(
        "/v1/chat/completions", json.dumps({**CHAT, **fields}), content_type="application/json", headers=headers
    )


async def open_stream(ada: User, key: ApiKey | None = None) -> Any:
    """A generation of the user that does not end by itself."""
    request = GenerationRequest(model="scripted-slow", messages=(ChatMessage(role="user", content="hi"),))
    return await begin(
        request, Origin(source="api", user_id=ada.pk, api_key_id=key and key.pk), received_at=time.monotonic()
    )


def refusal(response: Any) -> tuple[int, str, str, str]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, error["type"], error["code"], response.headers.get("WWW-Authenticate", "")


class TestKey:
    @pytest.mark.parametrize("debug", [True, False], ids=["demo", "production"])
    async def test_stream_is_recorded_with_key_and_user(
        self, settings: Any, debug: bool, ada: User, key: tuple[ApiKey, str]
    ) -> None:
        settings.DEBUG = debug
        response = await post(key=key[1])
        assert response.status_code == 200
        assert await sync_to_async(get_writer().flush)()
        stream = await Stream.objects.aget()
        assert (stream.user_id, stream.api_key_id, stream.session_key) == (ada.pk, key[0].pk, "")
        assert (await ApiKey.objects.aget()).last_used_at is not None

    @pytest.mark.parametrize("debug", [True, False], ids=["demo", "production"])
    @pytest.mark.parametrize(
        ("header", "code"),
        [
            pytest.param("Bearer none", "invalid_api_key", id="wrong"),
            pytest.param("bearer sk-000000000000.aaaa", "invalid_api_key", id="unknown"),
            pytest.param("Basic YWRhOnNlY3JldA==", "invalid_api_key", id="password"),
            pytest.param("Token", "invalid_api_key", id="no scheme of ours"),
        ],
    )
    async def test_wrong_key_is_a_401_also_in_the_demo(
        self, settings: Any, debug: bool, header: str, code: str
    ) -> None:
        settings.DEBUG = debug
        for path in ("/v1/models", "/v1/models/scripted"):
            response = await AsyncClient().get(path, headers={"authorization": header})
            assert refusal(response) == (401, "authentication_error", code, "Bearer")
        response = await AsyncClient().post("/v1/chat/completions", headers={"authorization": header})
        assert refusal(response) == (401, "authentication_error", code, "Bearer")
        assert header.split()[-1] not in response.json()["error"]["message"].split()

    @pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer "], ids=["none", "empty", "no key", "space"])
    async def test_no_key_is_fine_in_the_demo_only(self, settings: Any, header: str | None) -> None:
        headers = {} if header is None else {"authorization": header}
        assert (await AsyncClient().get("/v1/models", headers=headers)).status_code == 200
        settings.DEBUG = False
        response = await AsyncClient().get("/v1/models", headers=headers)
        assert refusal(response) == (401, "authentication_error", "missing_api_key", "Bearer")

    def test_no_key_is_a_401_from_another_machine(self) -> None:
        response = Client().get("/v1/models", REMOTE_ADDR="192.0.2.7")
        assert refusal(response)[2] == "missing_api_key"

    @pytest.mark.parametrize("how", ["revoked", "inactive"])
    async def test_key_ends_at_once_when_it_is_taken_away(self, how: str, ada: User, key: tuple[ApiKey, str]) -> None:
        assert (await post(key=key[1])).status_code == 200
        if how == "revoked":
            await sync_to_async(revoke_keys)(ApiKey.objects.all())
        else:
            await User.objects.filter(pk=ada.pk).aupdate(is_active=False)
        code = {"revoked": "api_key_revoked", "inactive": "user_inactive"}[how]
        assert refusal(await post(key=key[1]))[::2] == (401, code)

    async def test_cookies_do_not_matter(self, settings: Any, ada: User) -> None:
        settings.DEBUG = False
        client = AsyncClient(enforce_csrf_checks=True)
        await client.aforce_login(ada)
        assert refusal(await post(client))[::2] == (401, "missing_api_key")
        settings.DEBUG = True
        response = await post(client)
        assert response.status_code == 200
        assert "Cookie" not in response.headers.get("Vary", "")
        assert await sync_to_async(get_writer().flush)()
        assert (await Stream.objects.aget()).user_id is None

    @pytest.mark.parametrize("path", ["/v1/models", "/v1/models/scripted", "/v1/chat/completions", "/v1/nothing"])
    async def test_no_other_site_is_let_in(self, path: str) -> None:
        client = AsyncClient(enforce_csrf_checks=True)
        for method in ("OPTIONS", "POST", "DELETE"):
            response = await client.generic(method, path, headers={"origin": "https://evil.example"})
            assert response.status_code in {404, 405, 415}
            assert set(response.json()) == {"error"}
            assert [name for name in response.headers if name.lower().startswith("access-control")] == []


class TestLimits:
    async def test_requests_a_minute(self, key: tuple[ApiKey, str]) -> None:
        await ApiKey.objects.aupdate(requests_per_minute=2)
        headers = {"authorization": f"Bearer {key[1]}"}
        for _ in range(2):
            assert (await AsyncClient().get("/v1/models", headers=headers)).status_code == 200
        # The minute of the clock may end between two requests.
        await ApiKey.objects.aupdate(requests_per_minute=1)
        response = await post(key=key[1])
        if response.status_code == 200:
            response = await post(key=key[1])
        assert refusal(response)[:3] == (429, "rate_limit_error", "rate_limit_exceeded")
        assert 1 <= int(response["Retry-After"]) <= 60
        assert (await AsyncClient().get("/v1/models")).status_code == 200

    async def test_tokens_a_day(self, key: tuple[ApiKey, str]) -> None:
        # An answer costs 9 tokens for the prompt and 4 for the text.
        await ApiKey.objects.aupdate(tokens_per_day=14)
        for _ in range(2):
            assert (await post(key=key[1])).status_code == 200
            assert await sync_to_async(get_writer().flush)()
        response = await post(key=key[1])
        assert refusal(response)[:3] == (429, "rate_limit_error", "rate_limit_exceeded")
        assert "14 tokens a day; 26 are used" in response.json()["error"]["message"]
        assert 1 <= int(response["Retry-After"]) <= 86_400

    async def test_streams_at_once(self, ada: User, key: tuple[ApiKey, str]) -> None:
        await ApiKey.objects.aupdate(max_streams=2)
        opened = [await open_stream(ada, key[0]) for _ in range(2)]
        response = await post(key=key[1])
        assert refusal(response)[:3] == (429, "rate_limit_error", "rate_limit_exceeded")
        assert response["Retry-After"] == "1"
        # One that has ended leaves its place at once, whatever the writer has stored by then.
        opened.pop().close()
        assert (await post(key=key[1])).status_code == 200
        opened.pop().close()

    async def test_refused_request_leaves_nothing_behind(self, ada: User, key: tuple[ApiKey, str]) -> None:
        await ApiKey.objects.aupdate(max_streams=1)
        opened = await open_stream(ada, key[0])
        assert (await post(key=key[1])).status_code == 429
        opened.close()
        assert await sync_to_async(get_writer().flush)()
        assert (await Stream.objects.acount(), len(live)) == (1, 0)

    async def test_one_user_of_the_page_has_so_many_streams(self, settings: Any, ada: User) -> None:
        settings.STREAMSITE_USER_MAX_STREAMS = 1
        opened = await open_stream(ada)
        statuses = []
        for user in (ada, await User.objects.acreate(username="bob")):
            client = AsyncClient()
            await client.aforce_login(user)
            body = {"content": "hi", "stream_id": str(uuid.uuid4()), "model": "scripted"}
            response = await client.post("/chat/stream/", json.dumps(body), content_type="application/json")
            statuses.append(response.status_code)
            if response.streaming:
                assert [frame async for frame in response.streaming_content][-1] == b"data: [DONE]\n\n"
        assert statuses == [429, 200]
        opened.close()
        backends.close_all()
