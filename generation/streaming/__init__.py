"""The spine: a backend's deltas, recorded and handed on as frames; cancellation lives here.

`begin` checks a request, writes its ``running`` row and returns a `Generation`: an async iterator of deltas that ends
for one of the stop reasons and records it, whoever ends it; `begin_all` opens several answers together. `EventStream`
turns them into frames, `collect` into whole texts, and `live` knows those of this process that run.
"""

from generation.streaming.choices import Choices
from generation.streaming.collect import collect
from generation.streaming.event_stream import EventStream
from generation.streaming.generation import Generation, Origin
from generation.streaming.live import live
from generation.streaming.opening import begin, begin_all

__all__ = ["Choices", "EventStream", "Generation", "Origin", "begin", "begin_all", "collect", "live"]
