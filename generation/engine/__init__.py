"""The only place that imports torch: sequences of token ids in, sampled ids out; it never sees text."""

import os

from generation.engine.allocator import limit_heaps

# Must be set before torch loads OpenMP, whose threads wait for each other hundreds of times in a step. Asleep at once,
# each must be woken: 39 tokens a second of the bundled model on two cores instead of 64. Spinning for 3 ms, as they do
# by default, they take the time of other programs: 1 token a second beside four busy ones instead of 10. These spin for
# some 0.03 ms (docs/engine.md has all figures).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
limit_heaps()
