"""The only place that imports torch: sequences of token ids in, sampled ids out; it never sees text."""

import os

from generation.engine.allocator import limit_heaps

# Must be set before torch loads OpenMP. By default its threads spin while they wait for each other, and with other
# programs on the same cores a step of the bundled model takes 4.7 s instead of 0.2 s (2 cores, load 12).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
limit_heaps()
