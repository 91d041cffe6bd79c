"""Routes of the staff pages that are not of one record; below the stock admin's address, and behind its login."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from generation.admin.live import live_page, stop_stream
from generation.admin.trends import trends_page

app_name = "staff"
urlpatterns = [
    path("live/", admin.site.admin_view(live_page), name="live"),
    path("live/stop/<int:stream_id>/", admin.site.admin_view(stop_stream), name="stop-stream"),
    path("trends/", admin.site.admin_view(trends_page), name="trends"),
]
