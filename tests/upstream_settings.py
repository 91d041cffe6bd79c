"""Settings of a server whose models are another server's: that at TEST_UPSTREAM_URL.

The alias ``hasty`` is the same with a short time limit, for tests of silence.
"""

import os

from tests.settings import *  # noqa: F403

_OPTIONS = {
    "base_url": os.environ["TEST_UPSTREAM_URL"],
    "key": os.environ.get("TEST_UPSTREAM_KEY", ""),
    "kind": "streamsite",
    # None: all that the upstream lists.
    "models": os.environ.get("TEST_UPSTREAM_MODELS", "").split(),
    "connect_timeout_s": 5.0,
    "retries": 1,
}
_UPSTREAM = "generation.backends.upstream.UpstreamBackend"
GENERATION_BACKENDS = {
    "default": {"BACKEND": _UPSTREAM, "OPTIONS": _OPTIONS},
    "hasty": {
        "BACKEND": _UPSTREAM,
        "OPTIONS": {**_OPTIONS, "first_token_timeout_s": 1.5, "gap_timeout_s": 1.5},
    },
}
