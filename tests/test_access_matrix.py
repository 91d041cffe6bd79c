"""Who gets what at every URL, as the table in tests/data/access_matrix.txt says; a URL that it lacks is an error."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, resolve
from django.utils import timezone

from generation.access import create_key, revoke_keys
from generation.models import ApiKey, Conversation, DeltaBatch, Review, Run, Stream, Worker

ROLES = ("nobody", "ada", "bob", "staff", "reader", "key", "revoked")
LINES = Path("tests/data/access_matrix.txt").read_text(encoding="utf-8").splitlines()
ROWS = [tuple(line.split()) for line in LINES if line and not line.startswith("#")]
SECRET = "the-text-of-ada"
RECORDS = ("apikey", "conversation", "review", "run", "runitem", "stream", "worker")


@dataclass(kw_only=True)
class World:
    """A client of each role, and what stands for the names in the table's paths."""

    people: dict[str, User]
    clients: dict[str, Client]
    names: dict[str, Any]

    def log_in(self) -> None:
        for name, user in self.people.items():
            self.clients[name].force_login(user)


@pytest.fixture
def world(transactional_db: None, settings: Any) -> World:
    settings.DEBUG = False
    people = {name: User.objects.create(username=name, is_staff=name in ("staff", "reader")) for name in ROLES[1:5]}
    views = Permission.objects.filter(codename__in=[f"view_{record}" for record in RECORDS])
    content = Permission.objects.filter(codename="view_stream_content")
    people["staff"].user_permissions.set(views)
    people["reader"].user_permissions.set(views | content)
    made = {role: create_key(people["ada"], role) for role in ("key", "revoked")}
    revoke_keys(ApiKey.objects.filter(name="revoked"))
    clients = {role: Client(raise_request_exception=False) for role in ROLES}
    for role, (_, whole) in made.items():
        clients[role].defaults["HTTP_AUTHORIZATION"] = f"Bearer {whole}"
    return World(people=people, clients=clients, names=rows(people["ada"], made["key"][0]))


def rows(ada: User, key: ApiKey) -> dict[str, Any]:
    conversation = Conversation.objects.create(user=ada, title=SECRET)
    question = conversation.messages.create(role="user", content=SECRET)
    answer = conversation.messages.create(role="assistant", content=SECRET, parent=question)
    stream = Stream.objects.create(
        wire_id="chatcmpl-1", source="page", model="scripted", backend="default", state="done", stop_reason="eos",
        finish_reason="stop", started_at=timezone.now(), ended_at=timezone.now(), user=ada, conversation=conversation,
        message=answer, messages=[{"role": "user", "content": SECRET}], text=SECRET, delta_count=1,
    )  # fmt: skip
    delta = {"text": SECRET, "first_token": 0, "end_token": 1, "made_s": 0.1, "sent_s": 0.1, "holds": []}
    DeltaBatch.objects.create(stream=stream, first_seq=1, deltas=[delta])
    run = Run.objects.create(name="nightly", corpus="prompts.jsonl", model="scripted")
    run.items.create(position=0, item_id="a", stream=stream)
    return {
        "conversation": conversation.pk,
        "stream": stream.pk,
        "run": run.pk,
        "worker": Worker.objects.create(hostname="host", pid=1).pk,
        "apikey": key.pk,
        "review": Review.objects.create(stream=stream, reviewer=ada, label="good").pk,
        "user": ada.pk,
        "group": Group.objects.create(name="editors").pk,
        "type": ContentType.objects.get_for_model(Stream).pk,
    }


def test_each_role_gets_what_the_table_says(world: World) -> None:
    wrong = []
    for method, path, *cells in ROWS:
        world.log_in()
        body = {"data": json.dumps({"stream_id": str(uuid.uuid4())})} if method == "POST" else {}
        for role, expected in zip(ROLES, cells, strict=True):
            address = path.format(**world.names)
            response = world.clients[role].generic(method, address, content_type="application/json", **body)
            content = b"" if response.streaming else response.content
            found = f"{response.status_code}{'*' if SECRET.encode() in content else ''}"
            if found != expected:
                wrong.append(f"{method} {path} as {role}: {found}, not {expected}")
    assert wrong == []


def test_table_has_every_url(world: World) -> None:
    covered = {resolve(row[1].format(**world.names)).route for row in ROWS}
    # Two patterns that the admin makes of regular expressions.
    covered |= {"admin/^(?P<app_label>auth|generation)/$", "admin/(?P<url>.*)$"}
    assert sorted(set(routes(get_resolver())) - covered) == []


def routes(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    """The route of every pattern, as `resolve` names it."""
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route
        else:
            yield from routes(pattern, route)
