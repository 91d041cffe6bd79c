"""The base of every page here: a record can be looked at by staff with the view permission, and by nobody changed.

A subclass with a ``detail_template`` gets a page of its own instead of the stock form; ``detail`` fills it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from generation.admin.bounded_paginator import BoundedPaginator

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
else:

    class ModelAdmin(admin.ModelAdmin):
        """Takes a type parameter, which Django's own knows only in its stubs."""

        def __class_getitem__(cls, _: object) -> type:
            return cls


Record = TypeVar("Record", bound=Model)


class RecordAdmin(ModelAdmin[Record]):
    """Read-only list and page of one model; lists never count more than a few thousand rows."""

    detail_template: ClassVar[str | None] = None
    #: Columns that links from other pages filter by; with the filters shown, all that the address may name.
    linked_columns: ClassVar[frozenset[str]] = frozenset()
    empty_value_display = "–"
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    view_on_site = False
    list_per_page = 100
    paginator = BoundedPaginator

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["generation/admin/records.css"]}

    def detail(self, request: HttpRequest, record: Record) -> dict[str, object]:
        """What the detail template needs beyond ``original``."""
        return {}

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Refuse columns that are no filter: ``?text__startswith=`` would tell a text to those who may not see it."""
        name = lookup.split(LOOKUP_SEP)[0]
        shown = {getattr(each, "parameter_name", each) for each in self.list_filter}
        columns = {field.name for field in self.opts.get_fields()} - shown - self.linked_columns
        return name not in columns and super().lookup_allowed(lookup, value, request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Record | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Record | None = None) -> bool:
        return False

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        record = self.get_object(request, unquote(object_id)) if self.detail_template else None
        if self.detail_template is None or record is None:
            response: HttpResponse = super().change_view(request, object_id, form_url, extra_context)
            return response
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request, record):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": str(record),
            "opts": self.opts,
            "original": record,
            "media": self.media,
            "preserved_filters": self.get_preserved_filters(request),
            **self.detail(request, record),
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, self.detail_template, context)
