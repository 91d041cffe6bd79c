"""Durations counted in logarithmic buckets: small, mergeable by addition, and enough for percentiles; pure.

Bucket ``i`` holds durations from ``0.1 ms x 2^(i/8)`` up to the next edge, so that a percentile read from counts is
within 5 % of the exact one. Counts are plain mappings of bucket to number: they add up over processes, hours, models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

FIRST_EDGE_S = 0.0001
PER_DOUBLING = 8
#: The last bucket holds everything from about half an hour on.
LAST_BUCKET = 24 * PER_DOUBLING


def bucket_of(duration_s: float) -> int:
    """The bucket of a duration; the first one also takes everything shorter, zero included."""
    if duration_s <= FIRST_EDGE_S:
        return 0
    return min(LAST_BUCKET, int(PER_DOUBLING * math.log2(duration_s / FIRST_EDGE_S)))


def edge_s(bucket: float) -> float:
    """Where a bucket begins, in seconds; a fraction is a place inside it."""
    return float(FIRST_EDGE_S * 2.0 ** (bucket / PER_DOUBLING))


def percentile(counts: Mapping[int, int], percent: float) -> float | None:
    """The percentile of what was counted, in seconds, interpolated inside its bucket; None when nothing was."""
    total = sum(counts.values())
    if not total:
        return None
    # Each value stands in the middle of its share of the bucket.
    rank = (total - 1) * percent / 100 + 0.5
    below = 0
    for bucket in sorted(counts):
        if below + counts[bucket] >= rank:
            return edge_s(bucket + (rank - below) / counts[bucket])
        below += counts[bucket]
    return edge_s(max(counts) + 1)
