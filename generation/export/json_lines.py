"""A value as one line of JSON (UTF-8, ended by LF), exact whatever text it holds. Pure."""

from __future__ import annotations

import json
import re
from datetime import datetime

# JSON allows them in strings, but readers that cut at every line end of Unicode would cut there.
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")


def json_line(value: object) -> bytes:
    """Write the line; half of a surrogate pair, which UTF-8 cannot hold, makes it ASCII with escapes."""
    line = json.dumps(value, ensure_ascii=False, default=_datetime)
    line = _LINE_ENDS.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n"
    try:
        return line.encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=_datetime).encode() + b"\n"


def _datetime(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
