"""The options that `generate` and `replay_corpus` share, named after the request fields they set."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

_FIELDS = ("model", "max_tokens", "temperature", "seed", "stop")


def add_request_options(parser: ArgumentParser) -> None:
    """Add ``--model`` and the sampling options; their ranges are checked with the request."""
    parser.add_argument("--model", default="default", help="model to ask (the default backend's)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest answer, in tokens")
    parser.add_argument("--temperature", type=float, metavar="T", help="from 0 (always the likeliest token) to 2")
    parser.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same answer again")
    parser.add_argument("--stop", action="append", metavar="TEXT", help="end before this text; up to four times")


def request_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The request fields that were given."""
    return {name: options[name] for name in _FIELDS if options[name] is not None}
