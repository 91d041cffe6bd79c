"""The test settings with Django's GZipMiddleware, right after the one that serves (and compresses) static files."""

from tests.settings import *  # noqa: F403
from tests.settings import MIDDLEWARE as _MIDDLEWARE

_place = _MIDDLEWARE.index("servestatic.middleware.ServeStaticMiddleware") + 1
MIDDLEWARE = [*_MIDDLEWARE[:_place], "django.middleware.gzip.GZipMiddleware", *_MIDDLEWARE[_place:]]
