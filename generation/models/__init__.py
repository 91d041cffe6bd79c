"""Rows: conversations and messages, streams and deltas, workers, runs, API keys, reviews, hours."""

from generation.models.api_key import ApiKey
from generation.models.conversation import Conversation, Message
from generation.models.hour import StreamHour
from generation.models.review import Review
from generation.models.run import Run, RunItem
from generation.models.stream import DeltaBatch, Stream, choices
from generation.models.worker import Worker

__all__ = [
    "ApiKey",
    "Conversation",
    "DeltaBatch",
    "Message",
    "Review",
    "Run",
    "RunItem",
    "Stream",
    "StreamHour",
    "Worker",
    "choices",
]
