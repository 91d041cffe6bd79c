"""A key, and rows of streams opened with it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from generation.access import create_key
from generation.models import ApiKey, Stream


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create(username="ada")


@pytest.fixture
def key(ada: User) -> ApiKey:
    return create_key(ada, "tests")[0]


@pytest.fixture
def open_row(db: None) -> Callable[..., Stream]:
    """Write a running stream, or with ``state="done"`` an ended one."""
    numbers = itertools.count()

    def write(**fields: Any) -> Stream:
        ended = {"stop_reason": "eos", "finish_reason": "stop"} if fields.get("state", "running") != "running" else {}
        row = {"wire_id": f"chatcmpl-{next(numbers)}", "source": "api", "model": "scripted", "backend": "default"}
        return Stream.objects.create(**{**row, "started_at": timezone.now(), **ended, **fields})

    return write
