from __future__ import annotations

from typing import Any

import pytest

from generation.consumers import is_same_origin, session_key_of

PROXY = ("HTTP_X_FORWARDED_PROTO", "https")


def scope(*, scheme: str = "ws", **headers: str) -> dict[str, Any]:
    return {
        "type": "websocket",
        "scheme": scheme,
        "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()],
    }


@pytest.fixture(autouse=True)
def production(settings: Any) -> None:
    settings.DEBUG = False
    settings.ALLOWED_HOSTS = ["chat.example.org", "[::1]"]
    settings.SECURE_PROXY_SSL_HEADER = PROXY
    settings.CSRF_TRUSTED_ORIGINS = []


@pytest.mark.parametrize(
    ("host", "origin", "scheme", "forwarded", "same"),
    [
        ("chat.example.org", "https://chat.example.org", "ws", "https", True),
        ("chat.example.org", "https://chat.example.org", "wss", "", True),
        ("chat.example.org", "https://chat.example.org:443", "wss", "", True),
        ("chat.example.org:443", "https://chat.example.org", "wss", "", True),
        ("CHAT.example.org", "https://chat.example.org", "wss", "", True),
        ("chat.example.org:8000", "http://chat.example.org:8000", "ws", "", True),
        ("[::1]:8000", "http://[::1]:8000", "ws", "", True),
        ("chat.example.org", "http://chat.example.org", "ws", "https", False),
        ("chat.example.org", "https://chat.example.org", "ws", "http", False),
        ("chat.example.org", "https://chat.example.org:8443", "wss", "", False),
        ("chat.example.org:8000", "http://chat.example.org", "ws", "", False),
        ("chat.example.org", "https://evil.example", "wss", "", False),
        ("chat.example.org", "https://chat.example.org.evil.example", "wss", "", False),
        ("chat.example.org", "https://evil.example@chat.example.org:1", "wss", "", False),
        ("evil.example", "https://evil.example", "wss", "", False),
        ("", "", "ws", "", False),
        ("chat.example.org", "", "wss", "", False),
        ("chat.example.org", "null", "wss", "", False),
        ("chat.example.org", "https://[", "wss", "", False),
        ("chat.example.org", "https://chat.example.org:99999", "wss", "", False),
        ("chat.example.org", "file://chat.example.org", "wss", "", False),
    ],
)
def test_origin_is_the_same_only_when_scheme_host_and_port_are(
    host: str, origin: str, scheme: str, forwarded: str, same: bool
) -> None:
    assert is_same_origin(scope(scheme=scheme, host=host, origin=origin, x_forwarded_proto=forwarded)) is same


def test_trusted_origin_is_let_in(settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://staff.example.org"]
    assert is_same_origin(scope(host="chat.example.org", origin="https://staff.example.org"))
    assert not is_same_origin(scope(host="evil.example", origin="https://staff.example.org"))


def test_forwarded_scheme_counts_only_behind_a_proxy_of_ours(settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = None
    assert not is_same_origin(
        scope(host="chat.example.org", origin="https://chat.example.org", x_forwarded_proto="https")
    )


@pytest.mark.parametrize(
    ("cookie", "key"),
    [
        ("sessionid=abc", "abc"),
        ("theme=dark; sessionid=abc; other=1", "abc"),
        ("", ""),
        ("nothing", ""),
        ("\x00=;;;=", ""),
    ],
)
def test_session_is_the_one_of_the_cookie(cookie: str, key: str) -> None:
    assert session_key_of(scope(cookie=cookie)) == key
