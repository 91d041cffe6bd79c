"""What each kind of upstream server understands, and where it departs from OpenAI's API.

A field outside ``supports`` is refused by name before anything is sent: these servers ignore what they do not know, so
sending it would lose it without a word. docs/backends.md says where each quirk was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

_BASIC = frozenset(
    {
        "frequency_penalty",
        "include_stop_str_in_output",
        "max_completion_tokens",
        "max_tokens",
        "presence_penalty",
        "seed",
        "stop",
        "temperature",
        "top_p",
    }
)
_LOGPROBS = frozenset({"logprobs", "top_logprobs"})
_TOOLS = frozenset({"tools", "tool_choice"})
_OPENAI = _BASIC | _LOGPROBS | _TOOLS | {"logit_bias", "parallel_tool_calls", "response_format"}
_OPEN_MODELS = _OPENAI | {"ignore_eos", "min_p", "min_tokens", "repetition_penalty", "top_k"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamKind:
    """The abilities and quirks of one kind of server."""

    #: Request fields (wire names) that the server carries out.
    supports: frozenset[str]
    #: Fields that it knows by another name.
    renames: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: Whether it knows the role ``developer``; else that is sent as ``system``.
    developer_role: bool = False
    #: Whether it tells its tokens when asked to by ``stream_options.include_usage``.
    include_usage: bool = True
    #: Whether its stream never shows a stop string, nor a part of one; else stop strings are matched here as well.
    exact_stop: bool = False
    #: Whether it carries out ``include_stop_str_in_output``; else it is not told of stop strings that are to show.
    shows_stop: bool = False
    #: Whether ``[DONE]`` or the end of input without a finish_reason is this server's way to end an answer well.
    ends_without_finish: bool = False
    #: Whether it says ``stop`` after tool calls.
    tool_calls_end_with_stop: bool = False


KINDS: Mapping[str, UpstreamKind] = MappingProxyType(
    {
        "openai": UpstreamKind(
            supports=_OPENAI,
            # Its reasoning models refuse the older name.
            renames=MappingProxyType({"max_tokens": "max_completion_tokens"}),
            developer_role=True,
            exact_stop=True,
        ),
        # Text that may become a stop string waits since vllm#3574.
        "vllm": UpstreamKind(supports=_OPEN_MODELS, exact_stop=True, shows_stop=True),
        # sglang#6997: parts of a stop string were shown in streams until October 2025.
        "sglang": UpstreamKind(supports=_OPEN_MODELS),
        "llama.cpp": UpstreamKind(
            supports=_OPEN_MODELS - {"min_tokens"},
            renames=MappingProxyType({"repetition_penalty": "repeat_penalty"}),
        ),
        "ollama": UpstreamKind(
            supports=_BASIC | _LOGPROBS | {"response_format", "tools"}, tool_calls_end_with_stop=True
        ),
        # text-generation-inference#1724, #1254: the stop string is part of the answer.
        "tgi": UpstreamKind(supports=_BASIC | _LOGPROBS | _TOOLS | {"response_format"}),
        # Version 5.24: counts without being asked, shows stop strings, sends no [DONE], ignores presence_penalty, and
        # takes frequency_penalty for a repetition penalty.
        "transformers": UpstreamKind(
            supports=_BASIC - {"frequency_penalty", "presence_penalty"} | {"logit_bias", "tools"}, include_usage=False
        ),
        # Another Streamsite knows best what its model can do, and names the field when it refuses one.
        "streamsite": UpstreamKind(supports=_OPEN_MODELS, developer_role=True, exact_stop=True, shows_stop=True),
        "other": UpstreamKind(supports=_BASIC),
    }
)


def upstream_kind(name: str, quirks: Mapping[str, Any]) -> UpstreamKind:
    """The kind of this name, with some of its flags set otherwise. Raises ValueError for unknown names."""
    if name not in KINDS:
        raise ValueError(f"kind is {name!r}; it must be one of {', '.join(KINDS)}")
    flags = {flag.name for flag in fields(UpstreamKind)}
    if unknown := sorted(set(quirks) - flags):
        raise ValueError(f"quirks has {', '.join(unknown)}; it may have {', '.join(sorted(flags))}")
    values: dict[str, Any] = {flag: frozenset(value) if flag == "supports" else value for flag, value in quirks.items()}
    return replace(KINDS[name], **values)
