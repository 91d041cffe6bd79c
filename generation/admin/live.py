"""The live page, whose figures come over the websocket, and the stop of a stream by staff.

A stop is the server's doing: the record says ``client_stop`` ended by ``server``, the admin's log says by whom, and the
stream's reader gets an error.
"""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_GET, require_POST

from generation.broadcast import hub
from generation.broadcast.hub import LayerUnavailableError
from generation.models import Stream


@require_GET
def live_page(request: HttpRequest) -> HttpResponse:
    """The page, for staff who may view streams."""
    if not request.user.has_perm("generation.view_stream"):
        raise PermissionDenied
    context = {
        **admin.site.each_context(request),
        "title": "Live",
        "can_read": request.user.has_perm("generation.view_stream_content"),
        "can_stop": request.user.has_perm("generation.stop_stream"),
    }
    request.current_app = admin.site.name
    return TemplateResponse(request, "admin/generation/live.html", context)


@require_POST
def stop_stream(request: HttpRequest, stream_id: int) -> HttpResponse:
    """Stop a running stream, wherever it runs: 200 when it was one of this process, 202 when another was asked."""
    user_id = request.user.pk
    if user_id is None or not request.user.has_perm("generation.stop_stream"):
        raise PermissionDenied
    running = Stream.objects.running().filter(pk=stream_id).only("pk")
    if not running:
        return JsonResponse({"message": f"Stream {stream_id} does not run (any more)."}, status=404)
    try:
        here = async_to_sync(hub.stop)(stream_id)
    except LayerUnavailableError:
        message = "The stream runs in another process, which cannot be reached now. Try again."
        return JsonResponse({"message": message}, status=503)
    LogEntry.objects.log_actions(user_id, running, CHANGE, change_message="Stopped while it ran.", single_object=True)
    return JsonResponse({"message": "Stopped." if here else "Asked its process to stop."}, status=200 if here else 202)
