from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.models import Review, Stream

MakeStream = Callable[..., Stream]


def review(client: Client, stream: Stream, **fields: Any) -> Any:
    return client.post(reverse("admin:generation_stream_review", args=[stream.pk]), fields)


def shown(html: str) -> list[list[str]]:
    """The reviews as the page lists them, without their times."""
    body = html.partition('<table class="reviews">')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)][
            1:
        ]
        for row in re.findall(r"<tr[^>]*>.*?</tr>", body, re.DOTALL)
    ]


def test_reviews_are_appended_and_listed_when_sent(admin_client: Client, make_stream: MakeStream) -> None:
    stream = make_stream(["a", "b", "c"])
    assert review(admin_client, stream, label="good").status_code == 201
    assert review(admin_client, stream, label="wrong", first_seq=2, last_seq=3).status_code == 201
    answer = review(admin_client, stream, score=4, comment="Nearly.\nReally \u202e.", first_seq=1, last_seq=1)
    expected = [
        ["admin", "delta 1", "–", "4", "Nearly.\nReally U+202E."],
        ["admin", "deltas 2–3", "wrong", "–", ""],
        ["admin", "whole stream", "good", "–", ""],
    ]
    assert shown(answer.json()["html"]) == expected
    page = admin_client.get(reverse("admin:generation_stream_change", args=[stream.pk])).content.decode()
    assert shown(page) == expected
    rows = Review.objects.order_by("pk").values_list("label", "score", "comment", "first_seq", "last_seq")
    assert list(rows) == [
        ("good", None, "", None, None),
        ("wrong", None, "", 2, 3),
        ("", 4, "Nearly.\nReally \u202e.", 1, 1),
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({}, "A review needs a label, a score or a comment.", id="nothing"),
        pytest.param({"comment": "  "}, "A review needs a label, a score or a comment.", id="blank"),
        pytest.param({"label": "fine"}, "There is no label 'fine'. Labels here: good, wrong", id="unknown label"),
        pytest.param({"score": 6}, "less than or equal to 5", id="score too high"),
        pytest.param({"score": "x"}, "Enter a whole number.", id="score no number"),
        pytest.param(
            {"label": "good", "first_seq": 2}, "A range of deltas needs a first and a last", id="half a range"
        ),
        pytest.param({"label": "good", "first_seq": 2, "last_seq": 1}, "in this order", id="range upside down"),
        pytest.param({"label": "good", "first_seq": 1, "last_seq": 9}, "The stream has 2 deltas", id="range too long"),
        pytest.param({"comment": "x" * 4001}, "at most 4000 characters", id="comment too long"),
        pytest.param({"comment": "\0"}, "Null characters are not allowed.", id="NUL"),
    ],
)
def test_a_review_is_refused_with_a_reason_when_wrong(
    fields: dict[str, Any], message: str, admin_client: Client, make_stream: MakeStream
) -> None:
    answer = review(admin_client, make_stream(["a", "b"]), **fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert not Review.objects.exists()


def test_any_delta_may_be_reviewed_when_the_stream_still_runs(admin_client: Client, make_stream: MakeStream) -> None:
    stream = make_stream(["a", "b"], state="running", delta_count=0)
    assert review(admin_client, stream, label="good", first_seq=1, last_seq=2).status_code == 201


@pytest.mark.parametrize(
    ("permissions", "status"),
    [
        pytest.param(["view_stream", "annotate_stream"], 201, id="may annotate"),
        pytest.param(["view_stream", "view_stream_content"], 403, id="may only look"),
        pytest.param(["annotate_stream"], 403, id="may not look"),
    ],
)
def test_reviews_need_the_permission_when_staff_send_them(
    permissions: list[str], status: int, staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    assert review(staff_client(*permissions), make_stream(), label="good").status_code == status
    assert Review.objects.count() == (1 if status == 201 else 0)


def test_the_form_is_not_there_when_staff_may_only_look(
    staff_client: Callable[..., Client], make_stream: MakeStream
) -> None:
    address = reverse("admin:generation_stream_change", args=[make_stream().pk])
    assert 'id="review-form"' not in staff_client("view_stream").get(address).content.decode()


def test_a_review_is_refused_when_another_site_sends_it(make_stream: MakeStream, admin_user: object) -> None:
    client = Client(enforce_csrf_checks=True)
    client.login(username="admin", password="password")
    assert review(client, make_stream(), label="good").status_code == 403


def test_other_methods_are_refused_when_reviewing(admin_client: Client, make_stream: MakeStream) -> None:
    assert admin_client.get(reverse("admin:generation_stream_review", args=[make_stream().pk])).status_code == 405


def test_labels_are_those_of_the_settings_when_shown(
    admin_client: Client, make_stream: MakeStream, settings: Any
) -> None:
    settings.STREAMSITE_REVIEW_LABELS = ["keep", "<b>drop"]
    html = admin_client.get(reverse("admin:generation_stream_change", args=[make_stream().pk])).content.decode()
    assert [unescape(label) for label in re.findall(r'data-label="([^"]*)"', html)] == ["keep", "<b>drop"]


def test_the_list_of_reviews_names_stream_label_and_reviewer_when_opened(
    admin_client: Client, make_stream: MakeStream
) -> None:
    stream = make_stream()
    review(admin_client, stream, label="good", score=5, comment="x" * 200)
    html = admin_client.get("/admin/generation/review/?label=good").content.decode()
    assert f'<a href="/admin/generation/stream/{stream.pk}/change/#reviews">{stream.pk}</a>' in html
    assert "x" * 120 + "…" in html
    assert "0 reviews" in admin_client.get("/admin/generation/review/?label=wrong").content.decode()
