"""A stream, and each of its deltas, as flat records: named values that every format writes in this order.

Figures are for whoever may export. Content (what people and models wrote, and what tells it: ids, digests) is left out
altogether without ``content``; where a stream's text was never stored or has been deleted, its words are null. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from generation.models import Review, Stream

#: Columns of the row that are neither names of other rows nor content; session keys are secrets and stay here.
COLUMNS = (
    "model", "backend", "client_address_class", "include_usage", "upstream_id", "state", "finish_reason",
    "stop_reason", "ended_by", "log_incomplete", "has_text", "seen_chars", "proof", "started_at", "ended_at",
    "queue_s", "prefill_s", "ttft_model_s", "ttft_visible_s", "icl_p50_s", "icl_p95_s", "icl_max_s", "itl_p50_s",
    "itl_p95_s", "itl_max_s", "tpot_s", "total_s", "abort_latency_s", "prompt_tokens", "cached_tokens",
    "completion_tokens", "wasted_tokens", "delta_count", "holds",
)  # fmt: skip

#: Content that goes when a stream's text does.
WORDS = ("messages", "text", "stop_string", "tool_calls", "token_ids")
#: All content, in the order of a record.
CONTENT = (
    "messages", "parameters", "text", "stop_string", "tool_calls", "error", "error_body", "text_sha256",
    "reference_sha256", "token_ids", "token_offsets",
)  # fmt: skip


def stream_record(stream: Stream, *, content: bool) -> dict[str, Any]:
    """The record of a stream; reads its user, key and reviews, so have them fetched."""
    return {
        "id": stream.pk,
        "wire_id": stream.wire_id,
        "choice": stream.choice,
        "endpoint": stream.endpoint,
        "source": stream.source,
        "user": stream.user.get_username() if stream.user else None,
        "api_key": stream.api_key.prefix if stream.api_key else None,
        "conversation": _text(stream.conversation_id),
        "client_stream_id": _text(stream.client_stream_id),
        **{name: getattr(stream, name) for name in COLUMNS},
        "reviews": [_review_record(review, content=content) for review in stream.reviews.all()],
        **({name: _content(stream, name) for name in CONTENT} if content else {}),
    }


def delta_records(
    stream_id: int, first_seq: int, deltas: Iterable[Mapping[str, Any]], *, content: bool, has_text: bool
) -> Iterator[dict[str, Any]]:
    """The records of a batch of deltas, the first of which has this number."""
    for seq, delta in enumerate(deltas, first_seq):
        yield {
            "stream": stream_id,
            "seq": seq,
            **{name: delta[name] for name in ("sent_s", "made_s", "first_token", "end_token")},
            # Counted before the text was taken out, where it was.
            "chars": delta.get("chars", len(delta["text"])),
            "holds": delta["holds"],
            **(_delta_content(delta, has_text=has_text) if content else {}),
        }


def _content(stream: Stream, name: str) -> Any:
    if name in WORDS and not stream.has_text:
        return None
    # The text is stored whole at the end; until then the deltas are the text.
    return stream.shown_text if name == "text" else getattr(stream, name)


def _delta_content(delta: Mapping[str, Any], *, has_text: bool) -> dict[str, Any]:
    more = {name: delta[name] for name in ("logprobs", "tool_calls") if name in delta}
    return {"text": delta["text"] if has_text else None, **more}


def _review_record(review: Review, *, content: bool) -> dict[str, Any]:
    """What was said; a comment may quote the text."""
    names = ("label", "score", *(("comment",) if content else ()), "first_seq", "last_seq")
    return {
        "reviewer": review.reviewer.get_username() if review.reviewer else None,
        **{name: getattr(review, name) for name in names},
        "created_at": review.created_at,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
