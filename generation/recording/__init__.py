"""The record of a stream: recorder on the event loop, writer in its own thread, reaper for the lost.

`open_stream` writes the ``running`` row, a `Recorder` collects the stream and ends it with a `StreamEnd`; `get_writer`
gives the process's writer (to be called when a server starts, so that the dead are buried at once).
"""

from generation.recording.latency import state_of
from generation.recording.opening import open_stream
from generation.recording.reaper import reap
from generation.recording.recorder import Recorder, StreamEnd
from generation.recording.spans import set_up_spans, start_span
from generation.recording.writer import REQUEST_FLUSH_TIMEOUT_S, Writer, close_writer, get_writer

__all__ = [
    "REQUEST_FLUSH_TIMEOUT_S",
    "Recorder",
    "StreamEnd",
    "Writer",
    "close_writer",
    "get_writer",
    "open_stream",
    "reap",
    "set_up_spans",
    "start_span",
    "state_of",
]
