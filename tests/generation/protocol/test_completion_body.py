from __future__ import annotations

import pytest

from generation.output import FinishReason, TokenLogprob, Usage
from generation.protocol import Answer, completion_body, model_list_body

ENTRY = TokenLogprob(text="Hi", data=b"Hi", logprob=-0.5)
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("endpoint", "answer", "choice"),
    [
        pytest.param(
            "chat",
            Answer(text="Hi", finish_reason=FinishReason.STOP),
            {"message": {"role": "assistant", "content": "Hi"}, "logprobs": None, "finish_reason": "stop"},
            id="chat",
        ),
        pytest.param(
            "chat",
            Answer(text="", finish_reason=FinishReason.TOOL_CALLS, tool_calls=[CALL]),
            {
                "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
                "logprobs": None,
                "finish_reason": "tool_calls",
            },
            id="tool call",
        ),
        pytest.param(
            "chat",
            Answer(text="Hi", finish_reason=FinishReason.STOP, logprobs=(ENTRY,)),
            {
                "message": {"role": "assistant", "content": "Hi"},
                "logprobs": {"content": [{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}]},
                "finish_reason": "stop",
            },
            id="log-probabilities",
        ),
        pytest.param(
            "completions",
            Answer(text="Hi", finish_reason=FinishReason.LENGTH, logprobs=(ENTRY,)),
            {
                "text": "Hi",
                "logprobs": {
                    "tokens": ["Hi"],
                    "token_logprobs": [-0.5],
                    "top_logprobs": [{"Hi": -0.5}],
                    "text_offset": [0],
                },
                "finish_reason": "length",
            },
            id="text",
        ),
    ],
)
def test_body_is_the_whole_answer(endpoint, answer, choice) -> None:
    usage = Usage(prompt_tokens=1, completion_tokens=2)
    assert completion_body(
        endpoint=endpoint, wire_id="x-1", created=5, model="m", answers=[answer, answer], usage=usage
    ) == {
        "id": "x-1",
        "object": "chat.completion" if endpoint == "chat" else "text_completion",
        "created": 5,
        "model": "m",
        "choices": [{"index": 0, **choice}, {"index": 1, **choice}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


def test_model_list_is_a_list_object() -> None:
    assert model_list_body([]) == {"object": "list", "data": []}
