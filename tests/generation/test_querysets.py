from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db.models.functions import Now

from generation.models import Conversation, Stream, Worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return User.objects.create(username="ada")


@pytest.fixture
def owners(ada):
    """One conversation and one stream for each kind of owner."""
    bob = User.objects.create(username="bob")
    kinds = {
        "ada": {"user": ada},
        "ada in a browser": {"user": ada, "session_key": "session-a"},
        "bob": {"user": bob},
        "session a": {"session_key": "session-a"},
        "session b": {"session_key": "session-b"},
        "nobody": {},
    }
    for number, (title, owner) in enumerate(kinds.items()):
        conversation = Conversation.objects.create(title=title, **owner)
        make_stream(number, conversation=conversation, **owner)


def make_stream(number: int, **columns) -> Stream:
    return Stream.objects.create(
        **{
            "wire_id": f"chatcmpl-{number}",
            "source": "page",
            "model": "m",
            "backend": "b",
            "started_at": datetime.now(UTC),
            **columns,
        }
    )


@pytest.mark.parametrize(
    ("who", "session_key", "expected"),
    [
        pytest.param("ada", None, {"ada", "ada in a browser"}, id="a user"),
        pytest.param("ada", "session-b", {"ada", "ada in a browser"}, id="a user, whatever the session"),
        pytest.param(None, "session-a", {"session a"}, id="a session, without a user's rows of that session"),
        pytest.param(None, "session-c", set(), id="another session"),
        pytest.param(None, None, set(), id="neither, though rows without an owner exist"),
        pytest.param(None, "", set(), id="an empty session key"),
    ],
)
def test_rows_are_found_by_their_owner_only(owners, ada, who, session_key, expected):
    user = ada if who else AnonymousUser()
    assert set(Conversation.objects.owned_by(user, session_key).values_list("title", flat=True)) == expected
    streams = Stream.objects.owned_by(user, session_key)
    assert set(streams.values_list("conversation__title", flat=True)) == expected


def test_running_and_ended_share_all_streams_between_them():
    running = make_stream(1)
    ended = [make_stream(2, state="done", stop_reason="eos"), make_stream(3, state="lost", stop_reason="lost")]
    assert set(Stream.objects.running()) == {running}
    assert set(Stream.objects.ended()) == set(ended)


@pytest.mark.parametrize(
    ("heartbeat_s", "age_s", "dead"),
    [(3.0, 8, False), (3.0, 10, True), (10.0, 10, False), (10.0, 31, True)],
    ids=["two beats missed", "three beats missed", "beats seldom", "beats seldom and missed three"],
)
def test_a_worker_is_dead_when_it_missed_three_beats(settings, heartbeat_s, age_s, dead):
    settings.STREAMSITE_HEARTBEAT_S = heartbeat_s
    worker = Worker.objects.create(hostname="host", pid=1)
    Worker.objects.update(heartbeat_at=Now() - timedelta(seconds=age_s))
    assert Worker.objects.dead().filter(pk=worker.pk).exists() is dead
    stream = make_stream(1, worker=worker)
    make_stream(2, worker=worker, state="done", stop_reason="eos")
    assert list(Stream.objects.abandoned()) == ([stream] if dead else [])
