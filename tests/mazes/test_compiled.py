import numpy as np

from clew.mazes.compiled import begin_stream, below, mix, next_64, shuffle_first, unit


def stream(seed=0, index=0, attempt=0):
    state = np.empty(1, np.uint64)
    begin_stream(state, seed, index, attempt)
    return state


def chi_square(counts, expected):
    return float((((np.array(counts) - expected) ** 2) / expected).sum())


def test_mix_is_splitmix64():
    """The first outputs of splitmix64 from state 0, as published."""
    state = np.zeros(1, np.uint64)
    assert [int(next_64(state)) for _ in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]
    assert int(mix(np.uint64(0))) == 0


def test_streams_differ_in_every_part():
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**62, 0, 0), (0, 2**62, 0), (1, 1, 0)]
    assert len({int(next_64(stream(*key))) for key in keys}) == len(keys)
    assert int(next_64(stream(3, 4, 5))) == int(next_64(stream(3, 4, 5)))


def test_below_is_uniform():
    state = stream()
    for n in (1, 2, 3, 7):
        counts = np.bincount([below(state, n) for _ in range(7000)], minlength=n)
        assert len(counts) == n
        assert chi_square(counts, 7000 / n) < 25  # 6 degrees of freedom at most: passed by chance in 0.9997


def test_below_redraws_the_remainder():
    """With n = 3 * 2**30, taking the top bits alone would give every third number twice the chance of the others."""
    state = stream()
    n = 3 * 2**30
    draws = np.array([below(state, n) for _ in range(20_000)])
    assert draws.max() < n
    assert chi_square(np.bincount(draws % 3, minlength=3), 20_000 / 3) < 20


def test_unit_is_in_range_and_even():
    state = stream()
    draws = np.array([unit(state) for _ in range(10_000)])
    assert 0 <= draws.min() < draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.015


def test_shuffle_gives_every_order_alike():
    state = stream()
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        items = np.arange(3, dtype=np.int32)
        shuffle_first(state, items, 3)
        counts[tuple(items.tolist())] = counts.get(tuple(items.tolist()), 0) + 1
    assert len(counts) == 6
    assert chi_square(list(counts.values()), 1000) < 25


def test_shuffle_first_chooses_without_repeating():
    state = stream()
    items = np.arange(10, dtype=np.int32)
    shuffle_first(state, items, 4)
    assert sorted(items.tolist()) == list(range(10))
