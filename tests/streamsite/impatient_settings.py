"""The suite's settings, with a live page whose rights are read again every second."""

from tests.settings import *  # noqa: F403

STREAMSITE_RIGHTS_CHECK_S = 1.0
