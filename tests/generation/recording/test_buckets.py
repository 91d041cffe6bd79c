from __future__ import annotations

import random
from collections import Counter

import pytest

from generation.recording.buckets import LAST_BUCKET, bucket_of, edge_s, percentile
from generation.recording.latency import percentile as exact_percentile


@pytest.mark.parametrize(
    ("duration_s", "bucket"),
    [(0.0, 0), (0.00005, 0), (0.0001, 0), (0.00011, 1), (0.0002, 8), (0.1, 79), (1.0, 106), (1e9, LAST_BUCKET)],
)
def test_bucket_is_the_one_whose_edges_enclose_a_duration(duration_s: float, bucket: int) -> None:
    assert bucket_of(duration_s) == bucket


def test_every_bucket_begins_at_its_edge() -> None:
    for bucket in range(1, LAST_BUCKET):
        assert bucket_of(edge_s(bucket) * 1.0001) == bucket
        assert bucket_of(edge_s(bucket) * 0.9999) == bucket - 1


def test_percentile_is_none_when_nothing_was_counted() -> None:
    assert percentile({}, 50) is None


@pytest.mark.parametrize(("percent", "within"), [(0, 0.095), (50, 0.05), (95, 0.05), (99, 0.05), (100, 0.095)])
def test_percentile_is_near_the_exact_one_when_many_were_counted(percent: float, within: float) -> None:
    source = random.Random(7)
    durations = sorted(source.lognormvariate(-2, 0.7) for _ in range(5000))
    counts = Counter(map(bucket_of, durations))
    assert percentile(counts, percent) == pytest.approx(exact_percentile(durations, percent), rel=within)


@pytest.mark.parametrize("percent", [0, 50, 100])
def test_percentile_is_in_the_middle_of_the_bucket_when_one_was_counted(percent: float) -> None:
    assert percentile({80: 1}, percent) == pytest.approx(edge_s(80.5))
