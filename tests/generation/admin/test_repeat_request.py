from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from generation.admin.repeat_request import curl_command
from generation.models import Stream

HOSTILE = "'; rm -rf / #\n$(id) `id` \u202e\x1b[2J é"


def arguments(**fields: Any) -> list[str]:
    """What curl would get from a real shell."""
    stream = Stream(**{"model": "scripted", "messages": [{"role": "user", "content": HOSTILE}], **fields})
    command = curl_command(stream, "https://chat.example.org/")
    assert command.isascii()
    ran = subprocess.run(
        ["bash", "-c", f"curl() {{ printf '%s\\0' \"$@\"; }}\n{command}"],
        env={"STREAMSITE_API_KEY": "sk-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.split("\0")[:-1]


def test_the_shell_sees_one_body_when_the_prompt_is_hostile() -> None:
    curl = arguments(parameters={"temperature": 0, "include_stop": True, "seed": None}, include_usage=True)
    assert curl[:-1] == [
        "--no-buffer",
        "https://chat.example.org/v1/chat/completions",
        "-H",
        "Authorization: Bearer sk-1",
        "-H",
        "Content-Type: application/json",
        "-d",
    ]
    assert json.loads(curl[-1]) == {
        "model": "scripted",
        "messages": [{"role": "user", "content": HOSTILE}],
        "temperature": 0,
        "include_stop_str_in_output": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_bare_prompt_is_asked_for_as_one_when_it_was() -> None:
    curl = arguments(
        endpoint="completions",
        messages=[{"role": "prompt", "content": [1, 2]}],
        parameters={"logprobs": True, "top_logprobs": 3},
    )
    assert curl[1] == "https://chat.example.org/v1/completions"
    assert json.loads(curl[-1]) == {"model": "scripted", "prompt": [1, 2], "logprobs": 3, "stream": True}


@pytest.mark.parametrize("parameters", [None, [], "x"])
def test_the_command_stands_when_parameters_are_no_object(parameters: Any) -> None:
    assert json.loads(arguments(parameters=parameters)[-1])["model"] == "scripted"
