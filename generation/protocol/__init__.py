"""The wire: requests, chunks, frames and error bodies of the OpenAI API, free of Django and torch."""

from generation.protocol.body_fields import CompletionRequest
from generation.protocol.chunk import ChunkWriter, chunk_writer
from generation.protocol.completion_body import Answer, completion_body, model_body, model_list_body
from generation.protocol.completion_request import parse_chat_completion
from generation.protocol.error_body import error_body
from generation.protocol.sse import DONE, EventDecoder, comment_frame, data_frame
from generation.protocol.text_request import parse_text_completion

__all__ = [
    "DONE",
    "Answer",
    "ChunkWriter",
    "CompletionRequest",
    "EventDecoder",
    "chunk_writer",
    "comment_frame",
    "completion_body",
    "data_frame",
    "error_body",
    "model_body",
    "model_list_body",
    "parse_chat_completion",
    "parse_text_completion",
]
