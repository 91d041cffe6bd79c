"""What there is and how it is doing: models, liveness, readiness, metrics."""

from __future__ import annotations

import time

from asgiref.sync import sync_to_async
from django.db import DatabaseError, close_old_connections, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from generation.backends import backends
from generation.backends.base import BackendState
from generation.exceptions import NotFoundError, PermissionDeniedError
from generation.protocol import model_body, model_list_body
from generation.streaming import live
from generation.views.access import address_class, api_caller
from generation.views.methods import require_methods
from generation.views.responses import no_store, with_error_bodies

#: Models have no date of their own here; the API wants one.
_CREATED = int(time.time())


@csrf_exempt
@with_error_bodies
@require_methods("GET", "HEAD")
async def model_list(request: HttpRequest) -> HttpResponseBase:
    """``GET /v1/models``."""
    await api_caller(request)
    return JsonResponse(
        model_list_body(
            [model_body(model=card.id, created=_CREATED, owned_by=card.owned_by) for card in backends.models()]
        )
    )


@csrf_exempt
@with_error_bodies
@require_methods("GET", "HEAD")
async def model_detail(request: HttpRequest, model: str) -> HttpResponseBase:
    """``GET /v1/models/{id}``; an alias of a backend, as ``default``, names its first model."""
    await api_caller(request)
    cards = backends.resolve(model).models()
    card = next((card for card in cards if card.id == model), cards[0])
    return JsonResponse(model_body(model=card.id, created=_CREATED, owned_by=card.owned_by))


@with_error_bodies
@require_methods("GET", "HEAD")
async def healthz(request: HttpRequest) -> HttpResponseBase:
    """The process answers; nothing else is looked at."""
    return no_store(JsonResponse({"status": "ok"}))


@with_error_bodies
@require_methods("GET", "HEAD")
async def readyz(request: HttpRequest) -> HttpResponseBase:
    """200 when a request would be served now: default model loaded, database reachable, not shutting down."""
    health = {backend.alias: backend.health for backend in backends}
    state = health["default"].state
    database = await sync_to_async(_database_answers)()
    status = "ready" if state is BackendState.READY else state.value
    if not database:
        status = "no_database"
    if live.draining:
        status = "draining"
    body = {
        "status": status,
        "database": "ok" if database else "unreachable",
        "backends": {alias: {"state": one.state.value, "message": one.message} for alias, one in health.items()},
        "streams": len(live),
    }
    return no_store(JsonResponse(body, status=200 if status == "ready" else 503))


@with_error_bodies
@require_methods("GET", "HEAD")
async def metrics(request: HttpRequest) -> HttpResponseBase:
    """Prometheus metrics of this process, for this machine and its private network only."""
    if address_class(request) == "public":
        raise PermissionDeniedError("Metrics are for the private network.")
    return no_store(HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST))


@csrf_exempt
@with_error_bodies
async def unknown_route(request: HttpRequest, rest: str) -> HttpResponseBase:
    """Clients of the API read errors as JSON, also for a path that does not exist."""
    raise NotFoundError(f"There is no route {request.method} /v1/{rest}.", code="unknown_route")


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    finally:
        close_old_connections()
    return True
