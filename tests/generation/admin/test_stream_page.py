from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable
from html import unescape

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from generation.models import Conversation, Stream, Worker


def page_of(stream: Stream) -> str:
    return reverse("admin:generation_stream_change", args=[stream.pk])


def show(client: Client, stream: Stream, address: str = "") -> str:
    response = client.get(page_of(stream) + address)
    assert response.status_code == 200
    return response.content.decode()


def facts(html: str) -> dict[str, str]:
    pairs = re.findall(r"<dt>(.*?)</dt>\s*<dd[^>]*>(.*?)</dd>", html, re.DOTALL)
    return {unescape(name): unescape(re.sub(r"<[^>]+>", "", value)).strip() for name, value in pairs}


def text_of(html: str) -> str:
    (pre,) = re.findall(r'<pre[^>]* id="whole-text"[^>]*>\n(.*?)</pre>', html, re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "", pre))


def test_the_header_says_who_what_and_why_when_the_stream_has_ended(
    admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    conversation = Conversation.objects.create(title="Tides")
    identifier = uuid.UUID("0196f3c1-0000-7000-8000-000000000001")
    stream = make_stream(
        started_at=datetime.datetime(2026, 3, 1, 12, 0, 1, tzinfo=datetime.UTC),
        stop_reason="stop_string",
        stop_string="\n\n",
        ended_by="model",
        user=User.objects.create_user("reader"),
        conversation=conversation,
        worker=Worker.objects.create(hostname="host", pid=7),
        client_stream_id=identifier,
        client_address_class="loopback",
        source="page",
        log_incomplete=True,
        error="it \x1b broke",
    )
    html = show(admin_client, stream)
    assert f'<h1>Stream {stream.pk} <span class="state state-done">done</span></h1>' in html
    assert facts(html) | {
        "Stop reason": "stop string",
        "Finish reason": "stop",
        "Ended by": "model",
        "Stop string": "⏎⏎",
        "Model": "scripted",
        "Backend": "default",
        "User": "reader",
        "Source": "page, loopback address",
        "Started": "2026-03-01 12:00:01 UTC",
        "Ended": "–",
        "Worker": "host:7",
        "Conversation": "Tides",
        "Wire id": "chatcmpl-0001",
        "Client stream id": str(identifier),
    } == facts(html)
    assert f'<a href="/admin/generation/conversation/{conversation.pk}/change/">' in html
    assert "The log is incomplete" in html
    assert '<span class="unseen" title="escape">\\x1b</span> broke' in html


def test_the_request_is_shown_when_it_was_recorded(admin_client: Client, make_stream: Callable[..., Stream]) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "\nWhy?\n  Really."}]
    html = show(admin_client, make_stream(messages=messages, parameters={"temperature": 0, "seed": None}))
    request = html.partition('id="request"')[2].partition('id="events"')[0]
    assert re.findall(r'<p class="role">(.*?)</p>', request) == ["system", "user"]
    # The first line break belongs to the tag, as HTML has it, so that the text's own is kept.
    assert re.findall(r"<pre[^>]*>\n(.*?)</pre>", request, re.DOTALL) == ["Be brief.", "\nWhy?\n  Really."]
    assert facts(request) == {"temperature": "0"}


def test_the_text_is_whole_and_checked_when_deltas_join(
    admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    html = show(admin_client, make_stream(["\nOne ", "<b>two</b>", "\n three  "]))
    assert text_of(html) == "\nOne <b>two</b>\n three  "
    assert "24 characters" in html
    assert '<p class="verdict verdict-yes">Joined deltas equal the stored text.</p>' in html


def test_the_proof_is_shown_when_it_was_made(admin_client: Client, make_stream: Callable[..., Stream]) -> None:
    stream = make_stream(proof="equal", text_sha256="a" * 64, reference_sha256="b" * 64)
    shown = facts(show(admin_client, stream))
    assert shown["Proof"] == "equal"
    assert shown["SHA-256 of the text"] == "a" * 64
    assert shown["SHA-256 of the whole decode"] == "b" * 64


def test_the_check_fails_when_the_text_is_not_what_was_sent(
    admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    html = show(admin_client, make_stream(["One ", "two"], text="One too"))
    assert "verdict-no" in html
    assert "Joined deltas differ from the stored text, from character 6 on." in html


def test_the_deltas_are_the_text_when_the_stream_runs(admin_client: Client, make_stream: Callable[..., Stream]) -> None:
    html = show(admin_client, make_stream(["Hel", "lo"], state="running"))
    assert text_of(html) == "Hello"
    assert '<p class="verdict verdict-open">The stream is running' in html


def test_zero_and_not_applicable_differ_when_figures_are_shown(
    admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    figures = facts(show(admin_client, make_stream(queue_s=0.0, tpot_s=None, wasted_tokens=0)))
    assert figures["Queue time"] == "0 ms"
    assert figures["Wasted tokens"] == "0"
    assert figures["TPOT"] == "– does not apply"


def test_the_page_stands_when_nothing_was_sent(admin_client: Client, make_stream: Callable[..., Stream]) -> None:
    stream = make_stream([], state="failed", stop_reason="engine_error", finish_reason=None)
    html = show(admin_client, stream)
    assert "No text." in html
    assert "Nothing was held back." in html
