"""What stop strings should do, in the slowest and plainest way."""

from collections.abc import Sequence


def stop_oracle(text: str, stops: Sequence[str], *, include_stop: bool = False) -> tuple[str, str | None]:
    """The text that is shown and the stop string that matched: the first to complete, the longest of those."""
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end if include_stop else end - len(stop)], stop
    return text, None


def longest_held(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end could still become a stop string."""
    return max((size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size])), default=0)
