"""The environment, read in one typed place.

Every setting that may come from the environment is a field of `Environment`; a wrong value stops the start with the
variable's name and what would be right. ``.env`` in the checkout is read first; real variables win over it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent
#: As in `generation.backends.upstream_kind`, which is not imported here: settings come first.
UPSTREAM_KINDS = ("openai", "vllm", "sglang", "llama.cpp", "ollama", "tgi", "transformers", "streamsite", "other")
#: The largest value of the columns that hold a key's own limits.
MAX_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Typed values of the environment; see docs/settings.md for what each does."""

    debug: bool
    secret_key: str
    allowed_hosts: list[str]
    csrf_trusted_origins: list[str]
    var: Path
    model: str
    engine: str
    weights: str
    upstream_url: str
    upstream_key: str = field(repr=False)
    upstream_kind: str
    upstream_models: dict[str, str]
    database: dict[str, Any]
    redis_url: str
    host: str
    port: int
    anonymous: bool
    log_level: str
    max_stream_s: float
    keep_alive_s: float
    max_streams: int
    slow_reader_s: float
    kv_tokens: int
    user_max_streams: int
    key_max_streams: int
    key_requests_per_minute: int
    key_tokens_per_day: int
    max_body_bytes: int
    body_timeout_s: float
    review_labels: list[str]
    store_text: bool
    retention_days: int


def read_environment() -> Environment:
    """Read and check every variable. Raises ImproperlyConfigured with the name of the first wrong one."""
    env = environ.Env()
    environ.Env.read_env(BASE_DIR / ".env", overwrite=False)
    var = Path(env.str("STREAMSITE_VAR", default=str(BASE_DIR / "var"))).expanduser().resolve()
    debug = _boolean(env, "STREAMSITE_DEBUG", default=False)
    host = env.str("HOST", default="127.0.0.1")
    return Environment(
        debug=debug,
        secret_key=env.str("STREAMSITE_SECRET_KEY", default="") or _secret_key_file(var / "secret_key"),
        allowed_hosts=env.list("STREAMSITE_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"]),
        csrf_trusted_origins=env.list("STREAMSITE_CSRF_TRUSTED_ORIGINS", default=[]),
        var=var,
        model=env.str("STREAMSITE_MODEL", default=""),
        engine=_choice(env, "STREAMSITE_ENGINE", default="torch", choices=("torch", "openvino")),
        weights=_choice(env, "STREAMSITE_WEIGHTS", default="auto", choices=("auto", "bf16", "int8", "f32")),
        upstream_url=_base_url(env, "STREAMSITE_UPSTREAM_URL"),
        upstream_key=env.str("STREAMSITE_UPSTREAM_KEY", default=""),
        upstream_kind=_choice(env, "STREAMSITE_UPSTREAM_KIND", default="other", choices=UPSTREAM_KINDS),
        upstream_models=_names(env, "STREAMSITE_UPSTREAM_MODELS"),
        database=_database(env, var),
        redis_url=env.str("REDIS_URL", default=""),
        host=host,
        port=_port(env, "PORT", default=8000),
        # Anonymous use is for the demo on this very machine; anywhere else it must be asked for by name.
        anonymous=_boolean(env, "STREAMSITE_ANONYMOUS", default=debug and is_loopback(host)),
        log_level=_choice(env, "STREAMSITE_LOG_LEVEL", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR")),
        max_stream_s=_positive(env, "STREAMSITE_MAX_STREAM_S", default=600.0),
        keep_alive_s=_positive(env, "STREAMSITE_KEEP_ALIVE_S", default=15.0),
        max_streams=int(_positive(env, "STREAMSITE_MAX_STREAMS", default=256)),
        slow_reader_s=_positive(env, "STREAMSITE_SLOW_READER_S", default=30.0),
        kv_tokens=_whole(env, "STREAMSITE_KV_TOKENS", default=0),
        user_max_streams=_limit(env, "STREAMSITE_USER_MAX_STREAMS", default=8),
        key_max_streams=_limit(env, "STREAMSITE_KEY_MAX_STREAMS", default=16),
        key_requests_per_minute=_limit(env, "STREAMSITE_KEY_REQUESTS_PER_MINUTE", default=600),
        key_tokens_per_day=_limit(env, "STREAMSITE_KEY_TOKENS_PER_DAY", default=10_000_000),
        max_body_bytes=int(_positive(env, "STREAMSITE_MAX_BODY_BYTES", default=2 * 1024 * 1024)),
        body_timeout_s=_positive(env, "STREAMSITE_BODY_TIMEOUT_S", default=30.0),
        store_text=_boolean(env, "STREAMSITE_STORE_TEXT", default=True),
        retention_days=_whole(env, "STREAMSITE_RETENTION_DAYS", default=0),
        review_labels=_labels(
            env, "STREAMSITE_REVIEW_LABELS", default=["good", "wrong", "incomplete", "unsafe", "odd"]
        ),
    )


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _boolean(env: environ.Env, name: str, *, default: bool) -> bool:
    value = env.str(name, default="").strip().lower()
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    if value == "":
        return default
    raise ImproperlyConfigured(f"{name} is {value!r}; it must be 1 or 0.")


def _positive(env: environ.Env, name: str, *, default: float) -> float:
    value = env.str(name, default="") or str(default)
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a number above 0.")
    return number


def _whole(env: environ.Env, name: str, *, default: int) -> int:
    value = env.str(name, default="") or str(default)
    if not (value.isdecimal() and value.isascii()):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a whole number, 0 or above.")
    return int(value)


def _limit(env: environ.Env, name: str, *, default: int) -> int:
    value = env.str(name, default="") or str(default)
    if not (value.isdecimal() and value.isascii() and int(value) <= MAX_LIMIT):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a whole number, 0 for no limit.")
    return int(value)


def _port(env: environ.Env, name: str, *, default: int) -> int:
    value = env.str(name, default="") or str(default)
    if not (value.isdecimal() and value.isascii() and 1 <= int(value) <= 65535):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a number from 1 to 65535.")
    return int(value)


def _labels(env: environ.Env, name: str, *, default: list[str]) -> list[str]:
    labels = [label.strip() for label in env.list(name, default=default)]
    # One key of 1 to 5 for each; 40 characters is what a review's column holds.
    if not (1 <= len(labels) <= 5 and all(1 <= len(label) <= 40 for label in labels) and len({*labels}) == len(labels)):
        raise ImproperlyConfigured(f"{name} is {','.join(labels)!r}; it must be 1 to 5 different labels with commas.")
    return labels


def _choice(env: environ.Env, name: str, *, default: str, choices: tuple[str, ...]) -> str:
    value = env.str(name, default="") or default
    for choice in choices:
        if value.casefold() == choice.casefold():
            return choice
    raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")


def _base_url(env: environ.Env, name: str) -> str:
    """An address as clients of the OpenAI API take it, without a slash at its end; may be empty."""
    value = str(env.str(name, default=""))
    parts = urlsplit(value)
    if value and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.username):
        # Not shown: what stands where it should not may be a key.
        raise ImproperlyConfigured(f"{name} is not a base URL; it must look like http://host:8000/v1.")
    return value.rstrip("/")


def _names(env: environ.Env, name: str) -> dict[str, str]:
    """``ours=theirs,same``: the name here of each model, and its name there."""
    names: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in env.str(name, default="").split(","))):
        ours, equals, theirs = (part.strip() for part in entry.partition("="))
        if not ours or (equals and not theirs) or ours in names:
            raise ImproperlyConfigured(f"{name} has {entry!r}; it must be like ours=theirs,other, each name once.")
        names[ours] = theirs or ours
    return names


def _database(env: environ.Env, var: Path) -> dict[str, Any]:
    """The DATABASES entry: SQLite in the var folder unless DATABASE_URL names another."""
    try:
        database: dict[str, Any] = env.db("DATABASE_URL", default=f"sqlite:///{var / 'streamsite.sqlite3'}")
    except Exception as exc:  # environ raises several kinds for a bad URL
        raise ImproperlyConfigured(
            "DATABASE_URL is not a database address; it must look like postgres://user:password@host:5432/name."
        ) from exc
    engine = str(database.get("ENGINE", ""))
    if engine.endswith("sqlite3"):
        # IMMEDIATE: two read-then-write transactions never deadlock (asgi notes: 58-78 of 90 failed without it).
        database["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=5000;",
        }
    elif engine.endswith("postgresql"):
        database["OPTIONS"] = {
            # A server that does not answer at all would else block a thread for minutes.
            "connect_timeout": 5,
            "tcp_user_timeout": 10_000,
            **database.get("OPTIONS", {}),
            # Waiting for a connection ends before the record writer must spool and leave. The pool tries to reconnect
            # at longer and longer intervals, and nobody gets one meanwhile: given up soon, the next caller tries anew.
            "pool": {"min_size": 1, "max_size": 16, "timeout": 3, "reconnect_timeout": 1},
        }
        # After an outage the pool holds dead connections.
        database["CONN_HEALTH_CHECKS"] = True
    else:
        raise ImproperlyConfigured("DATABASE_URL names an unsupported database; use sqlite:/// or postgres://.")
    # Persistent connections leak under ASGI: 50 requests left 50 open.
    database["CONN_MAX_AGE"] = 0
    database["ATOMIC_REQUESTS"] = False
    return database


def _secret_key_file(path: Path) -> str:
    """The key in this file, made at the first start and readable by its owner only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _make_secret_key(path)
        return path.read_text(encoding="ascii").strip()
    except OSError as exc:
        raise ImproperlyConfigured(
            f"Cannot write {path} ({exc.strerror}). Set STREAMSITE_SECRET_KEY, or STREAMSITE_VAR to a writable folder."
        ) from exc


def _make_secret_key(path: Path) -> None:
    """Make the file whole or not at all, once, also when several processes start together."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(50))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
