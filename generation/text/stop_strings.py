"""Text in, text that cannot be part of a stop string out: an Aho-Corasick automaton on code points.

The stop string that completes first wins; of those with the same end the longest. No other rule gives the same
result however the text is cut. Exactly the longest suffix that could still become a stop string waits, no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from generation.exceptions import InvalidRequestError
from generation.output import HoldCause

MAX_STOPS = 4
#: An automaton costs about 0.1 ms and 0.1 MB per thousand characters, on the event loop.
MAX_STOP_CHARS = 10_000


def check_stops(stop: object) -> tuple[str, ...]:
    """Return the stop strings of a request (None, one string, or a list of them).

    Raises InvalidRequestError for an empty one, a non-string, a lone surrogate, too many or too long ones.
    """
    if stop is None:
        return ()
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list | tuple):
        raise _refusal(f"must be a string or a list of strings, got {type(stop).__name__}")
    if len(stops) > MAX_STOPS:
        raise _refusal(f"may hold at most {MAX_STOPS} strings, got {len(stops)}")
    return tuple(_checked(one) for one in stops)


def _checked(stop: object) -> str:
    if not isinstance(stop, str):
        raise _refusal(f"must hold strings only, got {type(stop).__name__}")
    if not stop:
        raise _refusal("must not hold an empty string, which would match at once")
    if len(stop) > MAX_STOP_CHARS:
        raise _refusal(f"must hold strings of at most {MAX_STOP_CHARS} characters, got {len(stop)}")
    if any("\ud800" <= char <= "\udfff" for char in stop):
        raise _refusal("must not hold a lone surrogate, which no text can contain")
    return stop


def _refusal(problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"'stop' {problem}.", param="stop")


class StopMatcher:
    """Pass text on until a stop string completes; then ``matched`` names it and everything later is dropped.

    With ``include_stop`` the stop string itself is passed on, so nothing ever waits.
    """

    cause = HoldCause.STOP
    __slots__ = ("_automaton", "_include_stop", "_state", "matched")

    def __init__(self, stops: Sequence[str], *, include_stop: bool = False) -> None:
        self._automaton = _Automaton(stops)
        self._include_stop = include_stop
        self._state = 0
        self.matched: str | None = None

    @property
    def held(self) -> int:
        """Characters that wait."""
        if self._include_stop or self.matched is not None:
            return 0
        return self._automaton.depth[self._state]

    def push(self, text: str) -> str:
        """Return what may be shown now, the text that waited before it included."""
        if self.matched is not None:
            return ""
        if self._state == 0 and self._automaton.first_chars.isdisjoint(text):
            return text
        held_before = self.held
        waited_in = self._state
        for read, char in enumerate(text, start=1):
            self._state = self._automaton.next_state(self._state, char)
            self.matched = self._automaton.complete[self._state]
            if self.matched is not None:
                dropped = 0 if self._include_stop else len(self.matched)
                return (self._automaton.prefix(waited_in)[:held_before] + text[:read])[: held_before + read - dropped]
        shown = held_before + len(text) - self.held
        return (self._automaton.prefix(waited_in)[:held_before] + text)[:shown] if shown else ""

    def flush(self) -> str:
        """Return the text that waited: the generation ended before it became a stop string."""
        held = self._automaton.prefix(self._state)[: self.held]
        self._state = 0
        return held


class _Automaton:
    """The stop strings as a trie with failure links; a state is a prefix of one of them, 0 the empty prefix."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._goto: dict[tuple[int, str], int] = {}
        self._failure = [0]
        #: The prefix a state stands for, as (stop string, its length): what waits need not be kept a second time.
        self._origin = [("", 0)]
        self.depth = [0]
        self.complete: list[str | None] = [None]
        self.first_chars = frozenset(stop[0] for stop in stops)
        for stop in stops:
            self._insert(stop)
        self._link()

    def prefix(self, state: int) -> str:
        """The text that led from state 0 to ``state``."""
        stop, length = self._origin[state]
        return stop[:length]

    def next_state(self, state: int, char: str) -> int:
        """The longest suffix of the text read so far, ``char`` included, that is a prefix of a stop string."""
        while (following := self._goto.get((state, char))) is None:
            if state == 0:
                return 0
            state = self._failure[state]
        return following

    def _insert(self, stop: str) -> None:
        state = 0
        for length, char in enumerate(stop, start=1):
            following = self._goto.get((state, char))
            if following is None:
                following = self._goto[state, char] = len(self.depth)
                self._failure.append(0)
                self._origin.append((stop, length))
                self.depth.append(length)
                self.complete.append(None)
            state = following
        self.complete[state] = stop

    def _link(self) -> None:
        """Set failure links in order of depth; a state inherits what is complete at its failure state."""
        edges: dict[int, list[tuple[str, int]]] = {}
        for (state, char), following in self._goto.items():
            edges.setdefault(state, []).append((char, following))
        waiting = deque([0])
        while waiting:
            state = waiting.popleft()
            for char, following in edges.get(state, ()):
                if state != 0:
                    self._failure[following] = self.next_state(self._failure[state], char)
                # Its own stop string is longer than any that ends here as a suffix.
                if self.complete[following] is None:
                    self.complete[following] = self.complete[self._failure[following]]
                waiting.append(following)
