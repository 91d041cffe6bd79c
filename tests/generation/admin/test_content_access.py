from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from generation.admin.content_access import VIEWED, note_content_view
from generation.models import Conversation, Review, Run, Stream

MakeStream = Callable[..., Stream]


def show(client: Client, stream: Stream) -> str:
    response = client.get(reverse("admin:generation_stream_change", args=[stream.pk]))
    assert response.status_code == 200
    return response.content.decode()


def test_figures_stay_and_text_is_gone_when_staff_lack_the_permission(
    staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    stream = make_stream(
        ["secret answer"],
        messages=[{"role": "user", "content": "secret question"}],
        parameters={"stop": ["secret stop"]},
        stop_string="secret stop",
        error="The upstream refuses the request: secret question",
        ttft_visible_s=0.25,
    )
    Review.objects.create(stream=stream, label="odd", comment="secret comment")
    html = show(staff_client("view_stream"), stream)
    assert "secret" not in html
    assert ("What the error said is shown to" in html, ">odd<" in html, "not shown to you" in html) == (True,) * 3
    assert "250 ms" in html
    assert "Can see the text of streams" in html
    assert not LogEntry.objects.exists()


def test_what_an_error_said_and_comments_are_shown_when_staff_have_the_permission(
    staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    stream = make_stream(error="refused: secret question")
    Review.objects.create(stream=stream, comment="secret comment")
    html = show(staff_client("view_stream", "view_stream_content"), stream)
    assert ("secret question" in html, "secret comment" in html, "not shown to you" in html) == (True, True, False)


def test_no_comments_are_listed_when_staff_lack_the_permission(
    staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    review = Review.objects.create(stream=make_stream(), label="odd", comment="secret comment")
    client = staff_client("view_review")
    addresses = [
        reverse("admin:generation_review_changelist"),
        reverse("admin:generation_review_change", args=[review.pk]),
    ]
    for address in addresses:
        html = client.get(address).content.decode()
        assert ("secret" in html, "odd" in html) == (False, True)
    User.objects.get(username="staff").user_permissions.add(Permission.objects.get(codename="view_stream_content"))
    assert all("secret comment" in client.get(address).content.decode() for address in addresses)


def test_no_comments_come_back_when_a_reviewer_lacks_the_permission(
    staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    stream = make_stream()
    Review.objects.create(stream=stream, comment="secret comment")
    client = staff_client("view_stream", "annotate_stream")
    answer = client.post(reverse("admin:generation_stream_review", args=[stream.pk]), {"label": "good"})
    assert (answer.status_code, "secret" in answer.json()["html"]) == (201, False)


def test_a_run_has_neither_parameters_nor_errors_when_staff_lack_the_permission(
    staff_client: Callable[..., Client],
) -> None:
    run = Run.objects.create(corpus="prompts.jsonl", model="scripted", parameters={"stop": "secret stop"})
    run.items.create(position=0, item_id="a", error="secret line")
    html = staff_client("view_run").get(reverse("admin:generation_run_change", args=[run.pk])).content.decode()
    assert ("secret" in html, "not shown to you" in html) == (False, True)


def test_a_view_is_logged_when_text_is_shown(staff_client: Callable[..., Client], make_stream: MakeStream) -> None:
    stream = make_stream(["secret answer"])
    html = show(staff_client("view_stream", "view_stream_content"), stream)
    assert "secret answer" in html
    (entry,) = LogEntry.objects.all()
    assert (entry.user.username, entry.object_id, entry.action_flag) == ("staff", str(stream.pk), VIEWED)
    assert entry.get_change_message() == "Viewed the text."


def test_one_view_is_logged_when_a_page_reads_many_ranges_within_the_hour(
    admin_client: Client, make_stream: MakeStream
) -> None:
    stream = make_stream()
    show(admin_client, stream)
    for name in ("deltas", "frames", "tokens"):
        admin_client.get(reverse(f"admin:generation_stream_{name}", args=[stream.pk]))
    show(admin_client, stream)
    assert LogEntry.objects.count() == 1


def test_views_are_logged_apart_when_user_stream_or_hour_differ(make_stream: MakeStream) -> None:
    first, second = User.objects.create_user("first"), User.objects.create_user("second")
    stream = make_stream()
    note_content_view(first, stream)
    note_content_view(second, stream)
    note_content_view(first, make_stream())
    LogEntry.objects.filter(user=first, object_id=str(stream.pk)).update(
        action_time=LogEntry.objects.earliest("pk").action_time - timedelta(hours=1, seconds=1)
    )
    note_content_view(first, stream)
    note_content_view(first, stream)
    assert LogEntry.objects.count() == 4


def test_the_history_page_tells_of_the_view_when_opened(admin_client: Client, make_stream: MakeStream) -> None:
    stream = make_stream()
    show(admin_client, stream)
    response = admin_client.get(reverse("admin:generation_stream_history", args=[stream.pk]))
    assert "Viewed the text." in response.content.decode()


def test_the_list_has_no_words_when_staff_lack_the_permission(
    staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    make_stream(["secret answer"])
    html = staff_client("view_stream").get(reverse("admin:generation_stream_changelist"), {"started": "any"}).content
    assert (b"secret" in html, b"scripted" in html) == (False, True)


def test_conversations_have_neither_titles_nor_messages_when_staff_lack_the_permission(
    staff_client: Callable[..., Client],
) -> None:
    conversation = Conversation.objects.create(title="secret title")
    conversation.messages.create(role="user", content="secret question")
    client = staff_client("view_conversation")
    for name, args in (("changelist", []), ("change", [conversation.pk]), ("history", [conversation.pk])):
        response = client.get(reverse(f"admin:generation_conversation_{name}", args=args))
        assert (response.status_code, b"secret" in response.content) == (200, False)
        assert str(conversation.pk) in response.content.decode()
    assert not LogEntry.objects.exists()


def test_a_view_is_logged_when_a_conversation_is_shown(admin_client: Client) -> None:
    conversation = Conversation.objects.create(title="secret title")
    admin_client.get(reverse("admin:generation_conversation_change", args=[conversation.pk]))
    (entry,) = LogEntry.objects.all()
    assert (entry.object_id, entry.action_flag) == (str(conversation.pk), VIEWED)
    assert entry.object_repr == f"conversation {conversation.pk}"


@pytest.mark.parametrize(
    "lookup",
    [
        "text__startswith",
        "messages__icontains",
        "parameters__stop",
        "error",
        "session_key__startswith",
        "user__password",
    ],
)
def test_a_column_is_refused_when_it_is_no_filter(lookup: str, admin_client: Client) -> None:
    assert admin_client.get(reverse("admin:generation_stream_changelist"), {lookup: "s"}).status_code == 400


@pytest.mark.parametrize(
    ("page", "lookup"),
    [("conversation", "title__startswith"), ("apikey", "secret_sha256__startswith"), ("review", "comment__contains")],
)
def test_a_column_of_other_records_is_refused_when_it_is_no_filter(
    page: str, lookup: str, admin_client: Client
) -> None:
    assert admin_client.get(reverse(f"admin:generation_{page}_changelist"), {lookup: "s"}).status_code == 400
