from __future__ import annotations

import pytest

from generation.models import Stream
from generation.replay.ending import ending_line


@pytest.mark.parametrize(
    ("stream", "line"),
    [
        pytest.param(
            Stream(
                pk=7,
                wire_id="chatcmpl-7",
                stop_reason="eos",
                ttft_visible_s=0.214,
                tpot_s=0.025,
                completion_tokens=52,
                total_s=1.456,
            ),
            "TTFT 0.21 s · 40.0 tokens/s · 52 tokens · total 1.46 s · eos · stream 7 (chatcmpl-7)",
            id="all figures",
        ),
        pytest.param(
            Stream(pk=8, wire_id="chatcmpl-8", stop_reason="client_stop", completion_tokens=0, total_s=0.0),
            "0 tokens · total 0.00 s · client_stop · stream 8 (chatcmpl-8)",
            id="no text",
        ),
        pytest.param(Stream(pk=9, wire_id="chatcmpl-9"), "still running · stream 9 (chatcmpl-9)", id="running"),
    ],
)
def test_the_line_has_the_figures_that_apply(stream: Stream, line: str) -> None:
    assert ending_line(stream) == line
