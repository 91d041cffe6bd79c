"""Seconds as staff read them: milliseconds below one second, and never a zero that is not one."""

from __future__ import annotations


def seconds(value: float | None) -> str:
    """Write a duration with its unit; nothing for None."""
    if value is None:
        return ""
    milliseconds = value * 1000
    if value >= 1:
        return f"{value:.2f} s"
    if milliseconds >= 100:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.1f} ms" if milliseconds >= 0.1 else f"{milliseconds:.1g} ms"
