"""Make an API key for a user of this server.

The whole key goes to standard output, once and alone, so that a shell can take it; everything else to standard error.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from generation.access import create_key
from generation.models import ApiKey

#: The largest value of the columns that hold the limits.
MAX_LIMIT = 2**31 - 1


class Command(BaseCommand):
    help = (
        "Make an API key with which a program calls /v1 in a user's name, and print it this once: only its hash is "
        "kept. Send it as 'Authorization: Bearer KEY', or as the api_key of an OpenAI client. Keys are listed and "
        "revoked in the admin, under API keys."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, metavar="NAME", help="whose key it is: the name of an active user")
        parser.add_argument("--name", required=True, help="what the key is for, as the admin's list shows it")
        limits = parser.add_argument_group("limits (0: none; left out: that of the server's settings)")
        limits.add_argument("--max-streams", type=_limit, metavar="N", help="streams open at once")
        limits.add_argument("--requests-per-minute", type=_limit, metavar="N", help="requests a minute")
        limits.add_argument("--tokens-per-day", type=_limit, metavar="N", help="tokens a day, prompts and answers")
        parser.epilog = "Example: manage.py create_api_key --user ada --name 'nightly report' --max-streams 4"

    def handle(self, *, user: str, name: str, **options: Any) -> None:
        users = get_user_model()
        owner = users._default_manager.filter(**{users.USERNAME_FIELD: user}).first()
        if owner is None:
            raise CommandError(f"There is no user {user!r}. Make one in the admin, or with manage.py createsuperuser.")
        if not owner.is_active:
            raise CommandError(f"The user {user!r} is not active, so a key would be refused.")
        longest = ApiKey._meta.get_field("name").max_length or 0
        if not name.strip() or len(name) > longest or not name.isprintable():
            raise CommandError(f"--name must be 1 to {longest} printable characters, not {name[:longest]!r}.")
        key, whole = create_key(
            owner,
            name.strip(),
            **{limit: options[limit] for limit in ("max_streams", "requests_per_minute", "tokens_per_day")},
        )
        self.stderr.write(f"API key {key.name!r} of {user}. It is shown only this once:")
        self.stdout.write(whole)


def _limit(value: str) -> int:
    if not (value.isdecimal() and value.isascii() and int(value) <= MAX_LIMIT):
        raise argparse.ArgumentTypeError(f"{value!r} is not a whole number from 0 to {MAX_LIMIT}")
    return int(value)
