"""Routes of websockets."""

from __future__ import annotations

from channels.routing import URLRouter
from django.urls import path, re_path

from generation.consumers import LiveConsumer, refuse

websockets = URLRouter(
    [
        path("admin/generation/live/socket", LiveConsumer.as_asgi()),
        re_path("", refuse),  # type: ignore[arg-type]  # the stubs know views only
    ]
)
