"""The environment: defaults, wrong values told by name, and the `.env` file."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from django.core.exceptions import ImproperlyConfigured

from generation.backends.upstream_kind import KINDS
from streamsite import env
from streamsite.env import is_loopback

OURS = ("STREAMSITE_", "DATABASE_URL", "REDIS_URL", "HOST", "PORT")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module as it is in an empty checkout of its own, with none of its variables set."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(OURS)]:
        monkeypatch.delenv(name)
    (tmp_path / "streamsite").mkdir()
    shutil.copy(env.__file__, tmp_path / "streamsite" / "env.py")
    spec = importlib.util.spec_from_file_location("env_of_checkout", tmp_path / "streamsite" / "env.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "env_of_checkout", module)
    spec.loader.exec_module(module)
    yield module
    # What `.env` sets stays in the process.
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        pytest.param("", ["good", "wrong", "incomplete", "unsafe", "odd"], id="default"),
        pytest.param(" keep , drop", ["keep", "drop"], id="two"),
    ],
)
def test_review_labels_are_read_when_well_formed(
    value: str, labels: list[str], checkout: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value:
        monkeypatch.setenv("STREAMSITE_REVIEW_LABELS", value)
    assert checkout.read_environment().review_labels == labels


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a,b,c,d,e,f", id="six"),
        pytest.param("a,a", id="twice"),
        pytest.param("x" * 41, id="too long"),
    ],
)
def test_review_labels_stop_the_start_when_wrong(
    value: str, checkout: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMSITE_REVIEW_LABELS", value)
    with pytest.raises(ImproperlyConfigured, match=r"^STREAMSITE_REVIEW_LABELS is .* 1 to 5 different labels"):
        checkout.read_environment()


def test_it_is_safe_when_nothing_is_set(checkout: ModuleType, tmp_path: Path) -> None:
    found = checkout.read_environment()
    assert (found.debug, found.anonymous, found.host) == (False, False, "127.0.0.1")
    assert found.allowed_hosts == ["127.0.0.1", "localhost", "[::1]"]
    assert found.var == tmp_path / "var"
    assert found.database["ENGINE"] == "django.db.backends.sqlite3"
    assert found.database["NAME"] == str(tmp_path / "var" / "streamsite.sqlite3")
    assert found.database["CONN_MAX_AGE"] == 0


def test_key_is_made_once_and_for_its_owner_only_when_there_is_none(checkout: ModuleType, tmp_path: Path) -> None:
    first = checkout.read_environment().secret_key
    assert len(first) >= 50
    assert checkout.read_environment().secret_key == first
    assert stat.S_IMODE((tmp_path / "var" / "secret_key").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("debug", "host", "anonymous", "allowed"),
    [
        ("1", "127.0.0.1", None, True),
        ("1", "::1", None, True),
        ("1", "0.0.0.0", None, False),
        ("0", "127.0.0.1", None, False),
        ("1", "127.0.0.1", "0", False),
        ("1", "0.0.0.0", "1", True),
    ],
)
def test_anonymous_use_is_for_the_demo_on_this_machine(
    checkout: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    debug: str,
    host: str,
    anonymous: str | None,
    allowed: bool,
) -> None:
    monkeypatch.setenv("STREAMSITE_DEBUG", debug)
    monkeypatch.setenv("HOST", host)
    if anonymous is not None:
        monkeypatch.setenv("STREAMSITE_ANONYMOUS", anonymous)
    assert checkout.read_environment().anonymous is allowed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STREAMSITE_DEBUG", "perhaps"),
        ("STREAMSITE_ANONYMOUS", "2"),
        ("STREAMSITE_LOG_LEVEL", "LOUD"),
        ("STREAMSITE_ENGINE", "steam"),
        ("STREAMSITE_WEIGHTS", "int4"),
        ("STREAMSITE_MAX_STREAM_S", "0"),
        ("STREAMSITE_MAX_STREAM_S", "-1"),
        ("STREAMSITE_KEEP_ALIVE_S", "soon"),
        ("STREAMSITE_KEEP_ALIVE_S", "inf"),
        ("STREAMSITE_KEEP_ALIVE_S", "nan"),
        ("STREAMSITE_SLOW_READER_S", "0"),
        ("STREAMSITE_KV_TOKENS", "-1"),
        ("STREAMSITE_KV_TOKENS", "many"),
        ("STREAMSITE_MAX_STREAMS", "many"),
        ("STREAMSITE_KEY_MAX_STREAMS", "-1"),
        ("STREAMSITE_KEY_TOKENS_PER_DAY", "1e6"),
        ("STREAMSITE_USER_MAX_STREAMS", "2147483648"),
        ("STREAMSITE_MAX_BODY_BYTES", "0"),
        ("PORT", "http"),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "²"),
        ("DATABASE_URL", "mysql://user@127.0.0.1/name"),
        ("DATABASE_URL", "nonsense"),
        ("STREAMSITE_UPSTREAM_URL", "127.0.0.1:8000/v1"),
        ("STREAMSITE_UPSTREAM_URL", "http://user:password@host/v1"),
        ("STREAMSITE_UPSTREAM_KIND", "gpt"),
        ("STREAMSITE_UPSTREAM_MODELS", "a=,b"),
        ("STREAMSITE_UPSTREAM_MODELS", "a=b,a=c"),
    ],
)
def test_start_stops_with_the_name_when_a_value_is_wrong(
    checkout: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured, match=rf"^{name} "):
        checkout.read_environment()


@pytest.mark.parametrize("under", ["", "var"], ids=["a file", "inside a file"])
def test_secret_key_is_asked_for_when_the_folder_cannot_be_written(
    checkout: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, under: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STREAMSITE_VAR", str(tmp_path / "file" / under))
    with pytest.raises(ImproperlyConfigured, match="Set STREAMSITE_SECRET_KEY, or STREAMSITE_VAR"):
        checkout.read_environment()


def test_real_variables_win_over_the_file(
    checkout: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("STREAMSITE_MAX_STREAMS=7\nSTREAMSITE_LOG_LEVEL=warning\nSTREAMSITE_WEIGHTS=BF16\n")
    monkeypatch.setenv("STREAMSITE_MAX_STREAMS", "9")
    found = checkout.read_environment()
    assert (found.max_streams, found.log_level, found.weights) == (9, "WARNING", "bf16")


def test_upstream_is_read_when_it_is_named(checkout: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkout.read_environment().upstream_url == ""
    monkeypatch.setenv("STREAMSITE_UPSTREAM_URL", "http://127.0.0.1:8080/v1/")
    monkeypatch.setenv("STREAMSITE_UPSTREAM_KEY", "sk-secret")
    monkeypatch.setenv("STREAMSITE_UPSTREAM_KIND", "vLLM")
    monkeypatch.setenv("STREAMSITE_UPSTREAM_MODELS", "small=org/small-8b, other")
    found = checkout.read_environment()
    assert (found.upstream_url, found.upstream_kind) == ("http://127.0.0.1:8080/v1", "vllm")
    assert found.upstream_models == {"small": "org/small-8b", "other": "other"}
    assert found.upstream_key == "sk-secret"
    assert "sk-secret" not in repr(found)


def test_kinds_of_upstreams_are_those_of_the_backend() -> None:
    assert set(env.UPSTREAM_KINDS) == set(KINDS)


def test_postgresql_gets_a_pool_and_no_persistent_connections(
    checkout: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://streamsite:password@127.0.0.1:5432/streamsite")
    database = checkout.read_environment().database
    assert database["ENGINE"] == "django.db.backends.postgresql"
    assert database["OPTIONS"]["pool"]["max_size"] == 16
    assert (database["CONN_MAX_AGE"], database["ATOMIC_REQUESTS"]) == (0, False)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.7", False),
        ("localhost.example.org", False),
    ],
)
def test_loopback_is_this_machine_only(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
