"""API keys: whose they are, when they were last used, what they may do, and the action that revokes them.

Keys are made by `manage.py create_api_key`, which shows them once; no secret and no hash of one comes near these pages.
"""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from generation.access import revoke_keys
from generation.admin.record_admin import RecordAdmin
from generation.admin.visible import visible_line
from generation.models import ApiKey


@admin.register(ApiKey)
class ApiKeyAdmin(RecordAdmin[ApiKey]):
    """Keys, newest first; staff with the change permission set their limits and revoke them."""

    list_display = ("shown_name", "prefix", "user", "created_at", "last_used_at", "revoked_at")
    list_select_related = ("user",)
    sortable_by = ()
    fields = (
        "shown_name", "prefix", "user", "created_at", "last_used_at", "revoked_at",
        "max_streams", "requests_per_minute", "tokens_per_day",
    )  # fmt: skip
    readonly_fields = fields[:6]
    actions = ("revoke",)

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return bool(request.user.has_perm("generation.change_apikey"))

    @admin.display(description="name")
    def shown_name(self, key: ApiKey) -> str:
        return visible_line(key.name)

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        named = [f"{key.name} ({key.prefix})" for key in queryset.filter(revoked_at__isnull=True)]
        for key in queryset.filter(revoked_at__isnull=True):
            self.log_change(request, key, "Revoked.")
        revoked = revoke_keys(queryset)
        level = messages.SUCCESS if revoked else messages.WARNING
        told = f"Revoked {', '.join(map(visible_line, named))}." if revoked else "These keys had been revoked before."
        self.message_user(request, told, level)
