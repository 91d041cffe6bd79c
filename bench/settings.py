"""Streamsite's own settings, with room for as many streams as the bench has."""

from streamsite.settings import *  # noqa: F403

GENERATION_BACKENDS = {
    "default": {"BACKEND": "generation.backends.local.LocalBackend", "OPTIONS": {"max_sequences": 16}}
}
