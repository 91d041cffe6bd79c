from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from generation.models import Conversation, Review, Run, Stream, Worker

RECORDS = ["conversation", "review", "run", "stream", "worker"]


@pytest.fixture
def pages(make_stream: Callable[..., Stream]) -> dict[str, str]:
    """The address of one page of each kind of record."""
    rows = {
        "conversation": Conversation.objects.create(),
        "run": Run.objects.create(corpus="prompts.jsonl", model="scripted"),
        "review": Review.objects.create(stream=make_stream(), label="good"),
        "stream": make_stream(),
        "worker": Worker.objects.create(hostname="host", pid=7),
    }
    return {name: reverse(f"admin:generation_{name}_change", args=[row.pk]) for name, row in rows.items()}


@pytest.mark.parametrize("name", RECORDS)
def test_records_cannot_be_changed_when_a_superuser_tries(
    name: str, admin_client: Client, pages: dict[str, str]
) -> None:
    assert admin_client.get(pages[name]).status_code == 200
    assert admin_client.post(pages[name], {"text": "x"}).status_code == 403
    assert admin_client.post(pages[name].replace("change", "delete"), {"post": "yes"}).status_code == 403
    assert admin_client.post(reverse(f"admin:generation_{name}_add"), {}).status_code == 403


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_seen_when_staff_have_the_view_permission(
    name: str, staff_client: Callable[..., Client], pages: dict[str, str]
) -> None:
    client = staff_client(f"view_{name}")
    assert client.get(pages[name]).status_code == 200
    assert client.get(reverse(f"admin:generation_{name}_changelist")).status_code == 200


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_refused_when_staff_lack_the_permission(
    name: str, staff_client: Callable[..., Client], pages: dict[str, str]
) -> None:
    client = staff_client(*(f"view_{other}" for other in RECORDS if other != name))
    assert client.get(pages[name]).status_code == 403
    assert client.get(reverse(f"admin:generation_{name}_changelist")).status_code == 403


@pytest.mark.parametrize("name", RECORDS)
def test_records_ask_for_a_login_when_the_visitor_is_not_staff(name: str, pages: dict[str, str]) -> None:
    client = Client()
    assert client.get(pages[name])["Location"].startswith("/admin/login/")
    client.force_login(User.objects.create_user("reader"))
    assert client.get(pages[name])["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("key", ["999999", "x", "9" * 40, "_00"])
def test_staff_are_told_when_there_is_no_such_record(name: str, key: str, admin_client: Client) -> None:
    response = admin_client.get(reverse(f"admin:generation_{name}_change", args=[key]), follow=True)
    assert "Perhaps it was deleted?" in response.content.decode()


class _Inline(HTMLParser):
    """Collects what a policy without inline script and style would block."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        # JSON in a script element is no script.
        is_script = tag == "script" and ("type", "application/json") not in attrs
        if tag == "style" or (is_script and "src" not in names):
            self.blocked.append(tag)
        self.blocked += [f"{tag} {name}" for name in names if name == "style" or name.startswith("on")]


@pytest.mark.parametrize("name", RECORDS)
def test_nothing_is_inline_when_the_policy_forbids_it(name: str, admin_client: Client, pages: dict[str, str]) -> None:
    for address in (pages[name], reverse(f"admin:generation_{name}_changelist")):
        response = admin_client.get(address)
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        parser = _Inline()
        parser.feed(response.content.decode())
        assert parser.blocked == []


@pytest.mark.django_db
def test_the_site_carries_the_projects_name_when_opened(admin_client: Client) -> None:
    html = admin_client.get(reverse("admin:index")).content.decode()
    assert "<title>Records | Streamsite</title>" in html
    assert '<a href="/admin/">Streamsite</a>' in html
