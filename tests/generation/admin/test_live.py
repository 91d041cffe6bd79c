from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from generation.models import Stream

PAGE = reverse("staff:live")


class TestPage:
    def test_stranger_is_sent_to_the_login(self, client: Client, db: None) -> None:
        assert client.get(PAGE).url == f"/admin/login/?next={PAGE}"

    def test_staff_without_the_permission_is_refused(self, staff_client: Callable[..., Client]) -> None:
        assert staff_client().get(PAGE).status_code == 403

    @pytest.mark.parametrize(
        ("codenames", "reads", "stops"),
        [
            (["view_stream"], False, False),
            (["view_stream", "view_stream_content"], True, False),
            (["view_stream", "stop_stream"], False, True),
        ],
        ids=["view", "content", "stop"],
    )
    def test_page_offers_what_the_viewer_may(
        self, staff_client: Callable[..., Client], codenames: list[str], reads: bool, stops: bool
    ) -> None:
        html = staff_client(*codenames).get(PAGE).content.decode()
        assert ("data-can-read" in html, "End of the text" in html) == (reads, reads)
        assert ("data-can-stop" in html) == stops
        assert 'data-socket="/admin/generation/live/socket"' in html

    @pytest.mark.parametrize("page", ["/admin/", "/admin/generation/"])
    @pytest.mark.parametrize(("codenames", "linked"), [(["view_stream"], True), (["view_worker"], False)])
    def test_index_leads_here_when_the_viewer_may_see_it(
        self, staff_client: Callable[..., Client], page: str, codenames: list[str], linked: bool
    ) -> None:
        html = staff_client(*codenames).get(page).content.decode()
        assert (f'href="{PAGE}"' in html, 'href="/admin/generation/trends/"' in html) == (linked, linked)


class TestStop:
    def address(self, stream: Stream) -> str:
        return reverse("staff:stop-stream", args=[stream.pk])

    def test_nothing_is_stopped_without_the_permission(
        self, staff_client: Callable[..., Client], make_stream: Callable[..., Stream]
    ) -> None:
        stream = make_stream(state="running")
        assert staff_client("view_stream").post(self.address(stream)).status_code == 403
        assert not LogEntry.objects.exists()

    def test_nothing_is_stopped_by_a_link(
        self, staff_client: Callable[..., Client], make_stream: Callable[..., Stream]
    ) -> None:
        assert staff_client("stop_stream").get(self.address(make_stream(state="running"))).status_code == 405

    def test_a_form_of_another_site_is_refused(
        self, staff_client: Callable[..., Client], make_stream: Callable[..., Stream]
    ) -> None:
        client = Client(enforce_csrf_checks=True)
        client.cookies = staff_client("stop_stream").cookies
        assert client.post(self.address(make_stream(state="running"))).status_code == 403

    def test_ended_stream_is_not_found(
        self, staff_client: Callable[..., Client], make_stream: Callable[..., Stream]
    ) -> None:
        response = staff_client("stop_stream").post(self.address(make_stream()))
        assert response.status_code == 404
        assert "does not run" in response.json()["message"]

    def test_its_process_is_asked_when_it_runs_elsewhere(
        self, staff_client: Callable[..., Client], make_stream: Callable[..., Stream]
    ) -> None:
        stream = make_stream(state="running")
        assert staff_client("stop_stream").post(self.address(stream)).status_code == 202
        entry = LogEntry.objects.get()
        assert (entry.user.username, entry.object_id) == ("staff", str(stream.pk))
        assert entry.get_change_message() == "Stopped while it ran."
