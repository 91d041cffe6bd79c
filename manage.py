#!/usr/bin/env python
"""Django's command line for Streamsite."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "streamsite.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ImportError as exc:
        raise SystemExit(
            "Django is not installed here. Run `make run` once, then use .venv/bin/python manage.py …"
        ) from exc
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as exc:
        raise SystemExit(str(exc)) from exc


if __name__ == "__main__":
    main()
