"""The only place that imports torch: sequences of token ids in, sampled ids out; it never sees text."""

import os

from generation.engine.allocator import limit_heaps

# Must be set before torch loads OpenMP, whose threads wait for each other hundreds of times in a step: by default they
# spin for about 3 ms before they sleep, here for about 0.03 ms. Tokens a second of the bundled model with 1, 4 and 16
# sequences on two cores, asleep at once, 0.03, 0.1 and 3 ms: alone 39, 64, 65 and 60 (95, 169, 168 and 157; 210, 330,
# 357 and 328); beside four busy programs 11, 10, 5 and 1 (43, 34, 20 and 6; 72, 68, 57 and too few to count).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
limit_heaps()
