"""All routes: the admin, and what `generation` serves."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/generation/", include("generation.admin.urls")),
    path("admin/", admin.site.urls),
    path("", include("generation.urls")),
]
