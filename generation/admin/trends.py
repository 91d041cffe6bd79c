"""The trends page: is it getting slower, why do streams end, what is held back; per hour or day, and per model.

Everything comes from counted hours (`trends_read`); every number leads to the streams behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from generation.admin.durations import seconds
from generation.admin.trends_chart import Chart, bar_chart, hit_areas, line_chart
from generation.admin.trends_read import SPANS, Totals, Trends, read_trends
from generation.admin.visible import visible_line
from generation.output import HoldCause, StopReason
from generation.recording.latency import state_of

PERCENTS = (50, 95, 99)
#: Percentiles of the summary, which has three figures to a line.
SUMMARY_PERCENTS = (50, 95)
FIGURES = {
    "ttft_visible": ("TTFT, visible", "Request received to the first text handed over."),
    "tpot": ("Time per output token", "(Total − TTFT of the model) / (tokens − 1)."),
    "total": ("Total", "Request received to the last frame."),
}
STATES = ("done", "stopped", "failed", "lost")
DEFAULT_SPAN = "24h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table, or one column of a chart: a time, and what is said of it."""

    when: str
    address: str
    cells: list[str]
    title: str
    x: str = ""
    width: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A chart with its words and its table."""

    key: str
    title: str
    about: str
    chart: Chart | None
    legend: list[str]
    heads: list[str]
    rows: list[Row]

    @property
    def axis(self) -> list[str]:
        """The first time, one in the middle, and the last."""
        return [self.rows[at].when for at in (0, len(self.rows) // 2, -1)]

    @property
    def filled(self) -> list[Row]:
        """The rows of times when something happened."""
        return [row for row in self.rows if row.cells]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several pages to look at."""

    label: str
    address: str
    chosen: bool


@require_GET
def trends_page(request: HttpRequest) -> HttpResponse:
    """The page, for staff who may view streams; ``?span=`` and ``?model=`` choose."""
    if not request.user.has_perm("generation.view_stream"):
        raise PermissionDenied
    span = SPANS.get(request.GET.get("span", ""), SPANS[DEFAULT_SPAN])
    model = request.GET.get("model", "")
    trends = read_trends(span, now=timezone.now(), model=model)
    models = ["", *trends.models] if model in trends.models or not model else ["", *trends.models, model]
    context = {
        **admin.site.each_context(request),
        "title": "Trends",
        "model": visible_line(model),
        "spans": [
            Choice(label=each.label, address=_query(span=key, model=model), chosen=each is span)
            for key, each in SPANS.items()
        ],
        "models": [
            Choice(
                label=visible_line(each) or "all models",
                address=_query(span=span.key, model=each),
                chosen=each == model,
            )
            for each in models
        ],
        "summary": [_summary(name, totals) for name, totals in trends.models.items()],
        "percents": SUMMARY_PERCENTS,
        "sections": _sections(trends, model=model, day=span.step >= timedelta(days=1)),
        "streams": sum(slot.streams for slot in trends.slots),
    }
    request.current_app = admin.site.name
    return TemplateResponse(request, "admin/generation/trends.html", context)


def _sections(trends: Trends, *, model: str, day: bool) -> list[Section]:
    return [
        *(_figure_section(name, trends.slots, model=model, day=day) for name in FIGURES),
        _ends_section(trends.slots, model=model, day=day),
        _holds_section(trends.slots, model=model, day=day),
    ]


def _figure_section(name: str, slots: list[Totals], *, model: str, day: bool) -> Section:
    series = {f"p{percent}": [slot.percentile(name, percent) for slot in slots] for percent in PERCENTS}
    title, about = FIGURES[name]

    def cells(slot: Totals) -> list[str]:
        n = slot.count(name)
        return [str(n), *(seconds(slot.percentile(name, percent)) for percent in PERCENTS)] if n else []

    return Section(
        key=name,
        title=title,
        about=about,
        chart=line_chart(series, label=_round_seconds),
        legend=list(series),
        heads=["n", *series],
        rows=_rows(slots, cells, heads=["n", *series], model=model, day=day),
    )


def _ends_section(slots: list[Totals], *, model: str, day: bool) -> Section:
    states = {state: [_in_state(slot, state) for slot in slots] for state in STATES}
    reasons = [reason.value for reason in StopReason if any(slot.ends[reason] for slot in slots)]

    def cells(slot: Totals) -> list[str]:
        return [str(slot.ends[reason] or "") for reason in reasons] if slot.streams else []

    heads = [reason.replace("_", " ") for reason in reasons]
    return Section(
        key="ends",
        title="Ends by cause",
        about="Streams by state; the table has their stop reasons.",
        chart=bar_chart(states, label=lambda value: f"{value:g}"),
        legend=list(STATES),
        heads=heads,
        rows=_rows(slots, cells, heads=heads, model=model, day=day),
    )


def _holds_section(slots: list[Totals], *, model: str, day: bool) -> Section:
    causes = [cause.value for cause in HoldCause]
    series = {cause: [slot.held_s[cause] for slot in slots] for cause in causes}

    def cells(slot: Totals) -> list[str]:
        if not slot.held:
            return []
        return [f"{seconds(slot.held_s[cause])} in {slot.held[cause]}" if slot.held[cause] else "" for cause in causes]

    return Section(
        key="holds",
        title="Hold-back time by cause",
        about="How long text that was generated had to wait, all streams together.",
        chart=bar_chart(series, label=_round_seconds),
        legend=causes,
        heads=causes,
        rows=_rows(slots, cells, heads=causes, model=model, day=day),
    )


def _rows(
    slots: list[Totals], cells: Callable[[Totals], list[str]], *, heads: list[str], model: str, day: bool
) -> list[Row]:
    rows = []
    for slot, (x, width) in zip(slots, hit_areas(len(slots)), strict=True):
        values = cells(slot)
        when = f"{slot.start:%Y-%m-%d}" if day else f"{slot.start:%Y-%m-%d %H:00}"
        told = ", ".join(f"{head} {value}" for head, value in zip(heads, values, strict=False) if value)
        rows.append(
            Row(
                when=when,
                address=streams_address(slot, model=model),
                cells=values,
                title=f"{when}: {told or 'none'}",
                x=x,
                width=width,
            )
        )
    return rows


def _summary(name: str, totals: Totals) -> Row:
    """One model over the whole span."""
    failed = _in_state(totals, "failed") + _in_state(totals, "lost")
    return Row(
        when=visible_line(name),
        address=streams_address(totals, model=name),
        cells=[
            *(seconds(totals.percentile(figure, p)) or "–" for figure in FIGURES for p in SUMMARY_PERCENTS),
            f"{failed} ({100 * failed / totals.streams:.1f} %)" if totals.streams else "–",
        ],
        title=str(totals.streams),
    )


def streams_address(totals: Totals, *, model: str) -> str:
    """The stream list, filtered to what was counted."""
    filters = {"started_at__gte": totals.start.isoformat(), "started_at__lt": totals.end.isoformat()}
    if model:
        filters["model"] = model
    return f"{reverse('admin:generation_stream_changelist')}?{urlencode(filters)}"


def _in_state(totals: Totals, state: str) -> int:
    return sum(count for reason, count in totals.ends.items() if state_of(StopReason(reason)) == state)


def _round_seconds(value: float) -> str:
    """The label of a line at a round duration."""
    return re.sub(r"\.0+ ", " ", seconds(value))


def _query(*, span: str, model: str) -> str:
    chosen = {"span": span, **({"model": model} if model else {})}
    return f"?{urlencode(chosen)}"
