"""What a stream was asked for, as a page can print it: messages and parameters, whatever JSON they turn out to be."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.utils.safestring import SafeString

from generation.admin.visible import visible_html, visible_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """One message of the request."""

    role: str
    content: SafeString


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownParameter:
    """One parameter with its value as JSON, so that the string "1" and the number 1 look different."""

    name: str
    value: str


def shown_messages(messages: object) -> list[ShownMessage]:
    """The messages in order; content that is not plain text is shown as its JSON."""
    if not isinstance(messages, list):
        return []
    shown = []
    for message in messages:
        fields = message if isinstance(message, dict) else {"content": message}
        content = fields.get("content", "")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        # An assistant's tool calls, and the id of the call that a tool answers.
        rest = {name: value for name, value in fields.items() if name not in ("role", "content")}
        if rest:
            text = f"{text}\n{json.dumps(rest, ensure_ascii=False)}".lstrip("\n")
        role = visible_line(str(fields.get("role", "?")))
        shown.append(ShownMessage(role=role, content=visible_html(text, whitespace=False)))
    return shown


def shown_parameters(parameters: object) -> list[ShownParameter]:
    """The parameters that were given, by name; None means the backend's default and is left out."""
    if not isinstance(parameters, dict):
        return []
    return [
        ShownParameter(name=visible_line(str(name)), value=visible_line(json.dumps(value, ensure_ascii=False)))
        for name, value in sorted(parameters.items())
        if value is not None
    ]
