from __future__ import annotations

from argparse import ArgumentParser

from generation.replay.options import add_request_options, request_fields


def fields_of(*arguments: str) -> dict[str, object]:
    parser = ArgumentParser()
    add_request_options(parser)
    return request_fields(vars(parser.parse_args(arguments)))


def test_only_the_model_is_asked_for_when_no_option_is_given() -> None:
    assert fields_of() == {"model": "default"}


def test_options_become_request_fields() -> None:
    assert fields_of(
        "--model", "m", "--max-tokens", "5", "--temperature", "0", "--seed", "0", "--stop", "a", "--stop", "b"
    ) == {"model": "m", "max_tokens": 5, "temperature": 0.0, "seed": 0, "stop": ["a", "b"]}
