"""What happens to whatever a product takes: nothing, or rounding to bfloat16 at random."""

import numpy as np


def exact(x):
    return x


class StochasticBfloat16:
    """Rounds to one of the two neighbouring bfloat16 values, the nearer one more often."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, x):
        bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
        noise = self.rng.integers(0, 1 << 16, size=bits.shape, dtype=np.uint32)
        return ((bits + noise) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
