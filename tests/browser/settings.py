"""Settings of the browser tests' server: the suite's own, with models that show what a page must survive."""

from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import GENERATION_BACKENDS as _BACKENDS
from tests.settings import STREAMSITE_VAR

_SCRIPTED = "generation.backends.scripted.ScriptedBackend"

GENERATION_BACKENDS: dict[str, Any] = {  # type: ignore[no-redef]
    "default": {
        "BACKEND": "tests.browser.loading_backend.LoadingBackend",
        "OPTIONS": {
            "ready_file": STREAMSITE_VAR / "model-is-loaded",
            "model": "greeter",
            "title": "Greeter",
            "pieces": ["Hello", ", ", "world", "!"],
            "prompt_tokens": 3,
            "licence": "MIT",
            "origin": "https://example.com/greeter",
        },
    },
    "slow": _BACKENDS["slow"],
    "failing": _BACKENDS["failing"],
    "demo-scripts": {**_BACKENDS["demo-scripts"], "OPTIONS": {"delay_s": 0.002}},
    "echo-slow": {
        "BACKEND": _SCRIPTED,
        "OPTIONS": {"model": "echo-slow", "echo": True, "byte_pieces": 8, "delay_s": 0.05},
    },
    "echo": {"BACKEND": _SCRIPTED, "OPTIONS": {"model": "echo", "echo": True, "byte_pieces": 3}},
}
