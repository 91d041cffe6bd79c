"""Rows for the admin's browser tests, written inside the server's own environment by `manage.py shell`.

`write` prints the ids of what it made as one JSON object.
"""

from __future__ import annotations

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone

from generation.models import Conversation, DeltaBatch, Message, Review, Stream

PAYLOADS = Path("tests/data/xss_payloads.txt").read_text(encoding="utf-8").splitlines()
ALL = "\n".join(PAYLOADS)


def write() -> None:
    """One stream of each kind that the page must show, and staff of both kinds."""
    staff = User.objects.create_superuser("staff")
    figures = User.objects.create_user("figures", is_staff=True)
    figures.user_permissions.set(Permission.objects.filter(codename="view_stream"))
    older = _stream(["older"])
    held = {"utf8": (3, 0.08), "stop": (4, 0.3), "context": (1, 0.2)}
    pieces = ["The ", "ca", "f", "é", " serves", " 👩\u200d", "🔬", " tea", ".\n", "E", "nd"]
    deltas = _deltas(pieces, gap_s=0.1, holds={3: "utf8", 6: "context", 8: "stop"}, held=held)
    shown = _stream(
        deltas, messages=[{"role": "user", "content": "Where?"}], token_ids=[1, 2], token_offsets=[0.1, 0.2]
    )
    long = _stream(_deltas([f"word{number} " for number in range(10_000)], gap_s=0.02))
    left = _stream(["lost "], state="stopped", stop_reason="client_disconnect", finish_reason=None, ended_by="client")
    Stream.objects.filter(pk=left.pk).update(abort_latency_s=0.004, wasted_tokens=2)
    ids: dict[str, int | str] = {"older": older.pk, "shown": shown.pk, "long": long.pk, "left": left.pk}
    sessions = {f"session of {user.username}": _session(user) for user in (staff, figures)}
    print(json.dumps(ids | sessions))


def write_hostile() -> None:
    """Every payload in every field that shows text: all in one where it is long enough, else one in each row."""
    rows = []
    for number, payload in enumerate(PAYLOADS):
        user = User.objects.create(username=payload[:150])
        conversation = Conversation.objects.create(user=user, title=payload[:200])
        stream = _stream(
            [payload], user=user, conversation=conversation, model=payload[:200], backend=payload[:100],
            wire_id=f"{number} {payload}"[:64], upstream_id=payload, stop_string=payload, error=payload,
            messages=[{"role": payload, "content": payload}], parameters={payload: payload},
        )  # fmt: skip
        Review.objects.create(stream=stream, reviewer=user, label=payload[:40], comment=payload)
        rows.append(stream.pk)
    staff = User.objects.get(username="staff")
    conversation = Conversation.objects.create(user=staff, title=PAYLOADS[0])
    for title in PAYLOADS:
        Conversation.objects.create(user=staff, title=title[:200])
    question = Message.objects.create(conversation=conversation, role="user", content=ALL)
    answer = Message.objects.create(conversation=conversation, role="assistant", content=ALL, parent=question)
    everything = _stream(
        [f"{payload}\n" for payload in PAYLOADS], user=staff, conversation=conversation, message=answer, error=ALL,
        stop_string=ALL, messages=[{"role": "user", "content": ALL}], parameters={"stop": PAYLOADS}, model=PAYLOADS[0],
    )  # fmt: skip
    for payload in PAYLOADS:
        Review.objects.create(stream=everything, reviewer=staff, label=payload[:40], comment=payload)
    print(json.dumps({"rows": rows, "everything": everything.pk, "conversation": str(conversation.pk)}))


def _session(user: User) -> str:
    """The cookie of a logged-in browser."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return str(session.session_key)


def _deltas(
    pieces: list[str], *, gap_s: float, holds: dict[int, str] | None = None, held: Any = None
) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    rhythm = random.Random(0)
    sent_s = 0.05
    for number, text in enumerate(pieces):
        sent_s += gap_s * rhythm.uniform(0.5, 1.5)
        cause = (holds or {}).get(number)
        size, held_s = held[cause] if cause else (0, 0)
        deltas.append(
            {
                "text": text,
                "first_token": number,
                "end_token": number + 1,
                "made_s": round(sent_s, 6),
                "sent_s": round(sent_s, 6),
                "holds": [{"cause": cause, "size": size, "held_s": held_s}] if cause else [],
            }
        )
    return deltas


def _stream(pieces: list[Any], **fields: Any) -> Stream:
    deltas = pieces if isinstance(pieces[0], dict) else _deltas(pieces, gap_s=0.05)
    total_s = deltas[-1]["sent_s"] + 0.01
    started_at = timezone.now() - timedelta(seconds=total_s)
    columns: dict[str, Any] = {
        "wire_id": f"chatcmpl-{random.randrange(10**12)}",
        "source": "page",
        "model": "scripted",
        "backend": "default",
        "state": "done",
        "stop_reason": "eos",
        "finish_reason": "stop",
        "ended_by": "model",
        "started_at": started_at,
        "ended_at": started_at + timedelta(seconds=total_s),
        "queue_s": 0.001,
        "ttft_model_s": deltas[0]["sent_s"],
        "ttft_visible_s": deltas[0]["sent_s"],
        "total_s": total_s,
        "completion_tokens": len(deltas),
        "delta_count": len(deltas),
        "text": "".join(delta["text"] for delta in deltas),
        **fields,
    }
    stream = Stream.objects.create(**columns)
    DeltaBatch.objects.bulk_create(
        DeltaBatch(stream=stream, first_seq=first + 1, deltas=deltas[first : first + 12])
        for first in range(0, len(deltas), 12)
    )
    return stream
