"""One line that tells how a stream ended, with its figures; read from its row once it is stored."""

from __future__ import annotations

from generation.models import Stream


def ending_line(stream: Stream) -> str:
    """Such as ``TTFT 0.21 s · 41.3 tokens/s · 52 tokens · total 1.46 s · eos · stream 7 (chatcmpl-…)``."""
    parts = []
    if stream.ttft_visible_s is not None:
        parts.append(f"TTFT {stream.ttft_visible_s:.2f} s")
    if stream.tokens_per_s is not None:
        parts.append(f"{stream.tokens_per_s:.1f} tokens/s")
    if stream.completion_tokens is not None:
        parts.append(f"{stream.completion_tokens} tokens")
    if stream.total_s is not None:
        parts.append(f"total {stream.total_s:.2f} s")
    parts += [stream.stop_reason or "still running", f"stream {stream.pk} ({stream.wire_id})"]
    return " · ".join(parts)
