"""What runs now, over all processes: for the live page, and to stop a stream wherever it runs.

Each process counts its own streams (`meter`); while somebody watches, its `hub` tells the others twice a second, over
the channel layer, and merges what they tell (`report`). Nothing here is on a delta's way.
"""

from generation.broadcast.hub import Hub, hub
from generation.broadcast.meter import Meter
from generation.broadcast.report import Report, RunningStream, page_of

__all__ = ["Hub", "Meter", "Report", "RunningStream", "hub", "page_of"]
