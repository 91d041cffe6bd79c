from __future__ import annotations

from collections.abc import Callable

from django.test import Client
from django.urls import reverse

from generation.models import Stream, Worker


def test_a_worker_links_to_its_running_streams_when_listed(
    admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    worker, other = (Worker.objects.create(hostname="host", pid=pid) for pid in (7, 8))
    running = make_stream(state="running", worker=worker)
    make_stream(worker=worker)
    make_stream(state="running", worker=other)
    html = admin_client.get(reverse("admin:generation_worker_changelist")).content.decode()
    address = f"{reverse('admin:generation_stream_changelist')}?worker__id__exact={worker.pk}&state__exact=running"
    assert f'<a href="{address.replace("&", "&amp;")}">show</a>' in html
    listed = admin_client.get(address).context["cl"].result_list
    assert [stream.pk for stream in listed] == [running.pk]
