"""Server-sent events: frames out, events in; the two sides of one format in one place.

Out: ``data:`` lines and ``:`` comments only; an ``id:``, ``retry:`` or ``event:`` line makes openai-python fail or
take an error for a chunk. In: the WHATWG parsing rules, fed with bytes cut anywhere.
"""

from __future__ import annotations

import codecs


def data_frame(json_line: str) -> bytes:
    """One event. The JSON must be ASCII: a raw U+2028 or U+0085 would end the line for clients that splitlines()."""
    return f"data: {json_line}\n\n".encode("ascii")


def comment_frame(text: str) -> bytes:
    """One comment; readers ignore it, proxies see a living connection."""
    return f": {text}\n\n".encode("ascii")


#: The last frame of every stream.
DONE = data_frame("[DONE]")


class EventDecoder:
    """Bytes of an event stream in, the data of its events out.

    Lines end with CR, LF or CRLF, cut anywhere; a BOM may lead; an event cut off by the end of input is dropped,
    as the standard says (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).
    """

    def __init__(self, *, errors: str = "replace") -> None:
        """``errors`` is what becomes of bytes that are not UTF-8: "replace", as the standard says, or "strict"."""
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors)
        self._line: list[str] = []
        self._data: list[str] = []
        self._at_start = True
        #: The previous chunk ended in CR: an LF that follows belongs to the same line end.
        self._after_cr = False

    def push(self, piece: bytes) -> list[str]:
        """Return the data of every event that this piece completes."""
        return self._push_text(self._utf8.decode(piece))

    def flush(self) -> list[str]:
        """End of input; what is not yet an event never becomes one."""
        self._line.clear()
        self._data.clear()
        return []

    def _push_text(self, text: str) -> list[str]:
        if self._at_start and text:
            self._at_start = False
            text = text.removeprefix("\ufeff")
        if self._after_cr and text:
            self._after_cr = False
            text = text.removeprefix("\n")
        if text.endswith("\r"):
            self._after_cr = True
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        events = []
        for line in lines:
            self._line.append(line)
            event = self._end_of_line("".join(self._line))
            self._line.clear()
            if event is not None:
                events.append(event)
        if rest:
            self._line.append(rest)
        return events

    def _end_of_line(self, line: str) -> str | None:
        if line == "":
            event = "\n".join(self._data) if self._data else None
            self._data.clear()
            return event
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        return None
