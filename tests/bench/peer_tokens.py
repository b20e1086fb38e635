"""The tokens and the warm-up of tests/bench/peer_workload.hpp, for other measurements of the same
workload."""

WARM_UP_STEPS = 2


def token_at(sequence, position, vocab_size):
    """splitmix64"""
    mask = (1 << 64) - 1
    x = ((sequence << 32 | position) + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & mask
    return (x ^ x >> 31) % vocab_size
