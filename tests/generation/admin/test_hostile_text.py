"""Every field that shows strangers' text, on every page: it adds no tag and no attribute to the page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import reverse

from generation.models import Conversation, Message, Review, Run, RunItem, Stream, Worker

Structure = Callable[[str], list[tuple[str, tuple[str, ...]]]]
Pages = Callable[[str], list[str]]


@pytest.fixture
def pages_with(make_stream: Callable[..., Stream]) -> Pages:
    """Write rows with this text in every field that is shown, and return the addresses of the pages that show them."""

    def write(text: str) -> list[str]:
        user = User.objects.create(username=text)
        conversation = Conversation.objects.create(user=user, title=text)
        question = Message.objects.create(conversation=conversation, role="user", content=text)
        answer = Message.objects.create(conversation=conversation, role="assistant", content=text, parent=question)
        worker = Worker.objects.create(hostname=text, pid=1)
        stream = make_stream(
            [text, "tail"],
            wire_id=text[:64],
            upstream_id=text,
            user=user,
            conversation=conversation,
            message=answer,
            worker=worker,
            model=text,
            backend=text,
            source=text[:16],
            client_address_class=text[:16],
            stop_string=text,
            error=text,
            messages=[{"role": text, "content": text}, {"role": "user", "content": [text]}],
            parameters={text: text, "stop": [text]},
            proof=text[:24],
            text_sha256=text[:64],
            reference_sha256=text[:64],
            holds={text: {"count": 1, "size": 1, "total_s": 0.1, "longest_s": 0.1}},
        )
        run = Run.objects.create(name=text, corpus=text, model=text, parameters={text: text})
        RunItem.objects.create(run=run, position=1, item_id=text, stream=stream, error=text)
        review = Review.objects.create(stream=stream, reviewer=user, label=text[:40], comment=text)
        rows = {"review": review, "stream": stream, "conversation": conversation, "run": run, "worker": worker}
        return [
            address
            for name, row in rows.items()
            for address in (
                reverse(f"admin:generation_{name}_changelist"),
                reverse(f"admin:generation_{name}_change", args=[row.pk]),
            )
        ]

    return write


@pytest.fixture(scope="module")
def harmless() -> list[list[tuple[str, tuple[str, ...]]]]:
    """The structure of each page when nothing in it is hostile; the first test fills it in."""
    return []


def test_no_tag_is_added_when_text_is_hostile(
    payload: str,
    pages_with: Pages,
    harmless: list[list[tuple[str, tuple[str, ...]]]],
    admin_client: Client,
    page_structure: Structure,
) -> None:
    if not harmless:
        with transaction.atomic():
            harmless += [page_structure(page(admin_client, address)) for address in pages_with("harmless")]
            transaction.set_rollback(True)
    for address, expected in zip(pages_with(payload), harmless, strict=True):
        html = page(admin_client, address)
        assert payload not in html
        assert page_structure(html) == expected


def page(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()
