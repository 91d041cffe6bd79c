from __future__ import annotations

from generation.output import TokenLogprob
from generation.protocol.logprobs import TextLogprobs, chat_logprobs


def entry(data: bytes, logprob: float, *top: TokenLogprob) -> TokenLogprob:
    return TokenLogprob(text=data.decode(errors="replace"), data=data, logprob=logprob, top=top)


def test_chat_entries_have_the_bytes_of_each_token() -> None:
    assert chat_logprobs([entry(b"\xc3", -0.5, entry(b"\xc3", -0.5), entry(b"a", -2.0)), entry(b"\xa9", -0.25)]) == {
        "content": [
            {
                "token": "\ufffd",
                "logprob": -0.5,
                "bytes": [0xC3],
                "top_logprobs": [
                    {"token": "\ufffd", "logprob": -0.5, "bytes": [0xC3]},
                    {"token": "a", "logprob": -2.0, "bytes": [0x61]},
                ],
            },
            {"token": "\ufffd", "logprob": -0.25, "bytes": [0xA9], "top_logprobs": []},
        ]
    }


def test_text_lists_are_parallel_and_count_characters() -> None:
    writer = TextLogprobs()
    first = writer.push([entry("né".encode()[:2], -1.0), entry(b"\xa9e", -2.0)])
    second = writer.push([entry(b"!", -3.0, entry(b"?", -0.5))])
    assert first == {
        "tokens": ["bytes:\\x6e\\xc3", "bytes:\\xa9\\x65"],
        "token_logprobs": [-1.0, -2.0],
        "top_logprobs": [{"bytes:\\x6e\\xc3": -1.0}, {"bytes:\\xa9\\x65": -2.0}],
        "text_offset": [0, 1],
    }
    assert second == {
        "tokens": ["!"],
        "token_logprobs": [-3.0],
        "top_logprobs": [{"?": -0.5, "!": -3.0}],
        "text_offset": [3],
    }
