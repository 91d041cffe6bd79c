"""Staff of a live server, already logged in: a session key for each role."""

from __future__ import annotations

import json

from tests.live_server import LiveServer

#: Permissions of each role; all are staff but ``reader``.
ROLES = {
    "admin": ["view_stream", "view_stream_content", "stop_stream", "export_stream"],
    "viewer": ["view_stream"],
    "nobody": [],
    "reader": ["view_stream", "view_stream_content", "stop_stream"],
}

_SCRIPT = """
import json
from importlib import import_module
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import Permission, User
from django.http import HttpRequest
keys = {}
for role, codenames in json.loads('ROLES').items():
    user, _ = User.objects.get_or_create(username=role, is_staff=role != "reader")
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore()
    auth.login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    request.session.save()
    keys[role] = request.session.session_key
print("KEYS", json.dumps(keys))
"""


def staff_sessions(server: LiveServer) -> dict[str, str]:
    """Make the roles and log each one in."""
    output = server.manage("shell", "--no-imports", "-c", _SCRIPT.replace("ROLES", json.dumps(ROLES)))
    keys: dict[str, str] = json.loads(output.rpartition("KEYS ")[2])
    return keys
