"""Settings of the test suite: the project's own, with scripted backends, a fresh var folder and fast passwords."""

import os
import tempfile
from pathlib import Path

_var = os.environ.setdefault("STREAMSITE_VAR", tempfile.mkdtemp(prefix="streamsite-tests-"))
os.environ.setdefault("STREAMSITE_DEBUG", "1")
os.environ.setdefault("DATABASE_URL", f"sqlite:///{Path(_var) / 'tests.sqlite3'}")

from streamsite.settings import *  # noqa: E402, F403

if DATABASES["default"]["ENGINE"].endswith("postgresql"):  # noqa: F405
    DATABASES["default"]["ENGINE"] = "tests.postgresql"  # noqa: F405

# A file, not SQLite's shared memory (whose locks ignore the busy time-out), and a name that no other run uses:
# the record writer is a real thread with a connection of its own.
DATABASES["default"]["TEST"] = {  # noqa: F405
    "NAME": str(Path(_var) / "suite.sqlite3")
    if DATABASES["default"]["ENGINE"].endswith("sqlite3")  # noqa: F405
    else f"test_streamsite_{os.getpid()}"
}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

_SCRIPTED = "generation.backends.scripted.ScriptedBackend"
GENERATION_BACKENDS = {
    "default": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "scripted", "pieces": ["Hello", ", ", "world", "!"], "prompt_tokens": 9},
    },
    "slow": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "scripted-slow", "pieces": ["tick "], "repeat": 2000, "delay_s": 0.02, "prompt_tokens": 1},
    },
    "late": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "scripted-late", "pieces": ["late"], "first_delay_s": 1.0},
    },
    "silent": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "scripted-silent", "pieces": ["at ", "last"], "first_delay_s": 2.0},
    },
    "tools": {
        "BACKEND": "generation.backends.scripted_tools.ScriptedToolsBackend",
        "OPTIONS": {
            "model": "scripted-tools",
            "pieces": ["Let me ", "see."],
            "tool_calls": [
                {"name": "find", "arguments": {"what": "tea"}},
                {"name": "find", "arguments": {"what": "चाय"}},
            ],
            "prompt_tokens": 5,
        },
    },
    # For proxies: one delta every 50 ms, and a first one that lets a short read time-out pass three times.
    "paced": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "scripted-paced", "pieces": ["tick "], "repeat": 2000, "delay_s": 0.05},
    },
    "long-silent": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "scripted-long-silent", "pieces": ["at last"], "first_delay_s": 3.0},
    },
    # More than any socket's buffers hold, at once.
    "flood": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "scripted-flood", "pieces": ["flood " * 10_000], "repeat": 2000, "delay_s": 0.001},
    },
    "failing": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "scripted-failing", "pieces": ["one ", "two ", "three "], "fail_at": 2},
    },
    "demo-scripts": {"BACKEND": "generation.backends.scripted.DemoScriptsBackend"},
}
