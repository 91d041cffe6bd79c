"""Messages in, prompt ids out, through the model's own chat template.

Special tokens come from the template only: the text of a message is encoded with special tokens disabled, so
``<|im_end|>`` in a message is plain text and cannot end the turn. Nothing here touches torch.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jinja2
from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from generation.exceptions import BackendUnavailableError, InvalidRequestError
from generation.request import ChatMessage


class ChatPrompt:
    """The tokenizer and chat template of a model folder. Raises BackendUnavailableError when either is not usable."""

    def __init__(self, folder: Path) -> None:
        try:
            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as exc:  # the library raises bare Exception
            raise BackendUnavailableError(f"{folder / 'tokenizer.json'} cannot be read: {exc}") from exc
        # A tokenizer of its own for message text, because the switch belongs to the tokenizer, not to the call.
        self._plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._plain.encode_special_tokens = True
        self._template, self._variables = _template(folder)
        added = self.tokenizer.get_added_tokens_decoder()
        self._special_ids = {token.content: token_id for token_id, token in added.items() if token.special}
        longest_first = sorted(self._special_ids, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def encode(self, messages: Iterable[ChatMessage]) -> list[int]:
        """Return the ids that ask for the next assistant message.

        Takes as long as the messages are long: call it off the event loop. Raises InvalidRequestError when the
        template refuses the messages (some want user and assistant to take turns).
        """
        quotes = _Quotes(self._special)
        rendered = self._render([{"role": _role(m), "content": quotes.quote(m.content)} for m in messages])
        if not quotes.used:
            return _ids(self.tokenizer, rendered)
        return [token_id for part in self._parts(rendered) for token_id in self._part_ids(part, quotes)]

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of a bare text, special tokens in it being plain text, with what the tokenizer puts before it.

        Takes as long as the text is long: call it off the event loop.
        """
        return _ids(self._plain, text, add_special_tokens=True)

    def _parts(self, rendered: str) -> Iterator[str]:
        """Cut at special tokens, which are all the template's own here, because those of messages are quoted."""
        start = 0
        for match in self._special.finditer(rendered):
            yield rendered[start : match.start()]
            yield match.group()
            start = match.end()
        yield rendered[start:]

    def _part_ids(self, part: str, quotes: _Quotes) -> list[int]:
        if part in self._special_ids:
            return [self._special_ids[part]]
        return _ids(self._plain, quotes.unquote(part)) if part else []

    def _render(self, conversation: list[dict[str, str]]) -> str:
        try:
            rendered, _ = render_jinja_template(
                [conversation], chat_template=self._template, add_generation_prompt=True, **self._variables
            )
        except jinja2.TemplateError as exc:
            raise InvalidRequestError(
                f"The model's chat template refuses the messages: {exc}", param="messages"
            ) from exc
        text: str = rendered[0]
        return text


class _Quotes:
    """Stands a word nobody can guess in for each special token of the messages until the template is rendered."""

    def __init__(self, special: re.Pattern[str]) -> None:
        self.used: dict[str, str] = {}
        self._special = special
        self._secret = secrets.token_hex(16)

    def quote(self, text: str) -> str:
        return self._special.sub(self._stand_in, text)

    def unquote(self, text: str) -> str:
        for stand_in, token in self.used.items():
            text = text.replace(stand_in, token)
        return text

    def _stand_in(self, match: re.Match[str]) -> str:
        stand_in = f"{self._secret}:{len(self.used)};"
        self.used[stand_in] = match.group()
        return stand_in


def _role(message: ChatMessage) -> str:
    # Templates know the older name only; OpenAI treats the two alike.
    return "system" if message.role == "developer" else message.role


def _ids(tokenizer: Tokenizer, text: str, *, add_special_tokens: bool = False) -> list[int]:
    # `encode` keeps the interpreter's lock (1 s for 1 MB of text, every stream stands still); the batch call frees it.
    ids: list[int] = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids
    return ids


def _template(folder: Path) -> tuple[str, dict[str, str]]:
    """The chat template and the token names that it may use."""
    config: dict[str, Any] = {}
    if (folder / "tokenizer_config.json").is_file():
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    if (folder / "chat_template.jinja").is_file():
        template: Any = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    else:
        template = config.get("chat_template")
    if isinstance(template, list):
        template = next((entry["template"] for entry in template if entry["name"] == "default"), None)
    if not isinstance(template, str):
        raise BackendUnavailableError(
            f"{folder} has no chat template, so it is not a chat model. Choose another model."
        )
    names = ("bos_token", "eos_token", "unk_token", "pad_token")
    tokens = {name: token["content"] if isinstance(token := config.get(name), dict) else token for name in names}
    return template, {name: token for name, token in tokens.items() if token is not None}
