"""Django's page of users, with which a person can be deleted whose records nobody may delete one by one.

With the person go the conversations, API keys and log entries; streams and reviews stay, without a name. Who is only to
be kept out is made inactive: the login and every API key are refused from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import User
from django.http import HttpRequest

from generation.models import ApiKey, Conversation

admin.site.unregister(User)


@admin.register(User)
class UserAdmin(DjangoUserAdmin):  # type: ignore[type-arg]  # no type parameter at run time
    """Users; the permission to delete one is enough for what goes with them."""

    def get_deleted_objects(
        self, objs: Iterable[Any], request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[str]]:
        shown, counts, needed, protected = super().get_deleted_objects(objs, request)  # type: ignore[arg-type]
        goes_along = {str(model._meta.verbose_name) for model in (ApiKey, Conversation, LogEntry)}
        return shown, counts, needed - goes_along, protected
