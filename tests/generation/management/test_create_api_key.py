from __future__ import annotations

import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from generation.access import authenticate
from generation.models import ApiKey

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("create_api_key", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_key_alone_goes_to_standard_output() -> None:
    ada = User.objects.create(username="ada")
    out, err = run("--user", "ada", "--name", " nightly ", "--max-streams", "4", "--requests-per-minute", "0")
    key = authenticate(out.removesuffix("\n"))
    assert (key.user, key.name, key.last_used_at) == (ada, "nightly", None)
    assert (key.max_streams, key.requests_per_minute, key.tokens_per_day) == (4, 0, None)
    assert err == "API key 'nightly' of ada. It is shown only this once:\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--user", "bob", "--name", "x"), "There is no user 'bob'.", id="no such user"),
        pytest.param(("--user", "eve", "--name", "x"), "The user 'eve' is not active", id="inactive user"),
        pytest.param(("--user", "ada", "--name", " "), "--name must be 1 to 100 printable characters", id="no name"),
        pytest.param(("--user", "ada", "--name", "x" * 101), "--name must be 1 to 100", id="long name"),
        pytest.param(("--user", "ada", "--name", "a\x1b[2J"), "--name must be 1 to 100", id="control in the name"),
        pytest.param(("--user", "ada"), "the following arguments are required: --name", id="name left out"),
        pytest.param(
            ("--user", "ada", "--name", "x", "--max-streams", "-1"), "'-1' is not a whole number", id="negative limit"
        ),
        pytest.param(
            ("--user", "ada", "--name", "x", "--tokens-per-day", "99999999999"),
            "is not a whole number from 0 to 2147483647",
            id="limit beyond the column",
        ),
    ],
)
def test_no_key_is_made_when_something_is_wrong(arguments: tuple[str, ...], message: str) -> None:
    User.objects.create(username="ada")
    User.objects.create(username="eve", is_active=False)
    with pytest.raises(CommandError) as refused:
        run(*arguments)
    assert message in str(refused.value)
    assert not ApiKey.objects.exists()


def test_help_suffices(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    told = " ".join(capsys.readouterr().out.split())
    for words in ("print it this once", "Authorization: Bearer KEY", "revoked in the admin", "0: none", "Example:"):
        assert words in told
