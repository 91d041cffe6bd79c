"""The ASGI application: HTTP, websockets, bounds on bodies, and the life of the process around it (start, drain).

In: the server's scopes. Out: Django's answers. Start-up begins loading the models; SIGTERM and SIGINT give every open
stream its last frame before the server's own shutdown runs.
"""

from __future__ import annotations

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "streamsite.settings")

http = get_asgi_application()

# They import models, so Django must be set up.
from generation.routing import websockets  # noqa: E402
from streamsite.body_limit import BodyLimit  # noqa: E402
from streamsite.drain import Drain  # noqa: E402

application = Drain(BodyLimit(ProtocolTypeRouter({"http": http, "websocket": websockets})))
