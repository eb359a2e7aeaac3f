"""Steps along passages by hand: what they compute, forth and back, is what plain torch computes."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clew.data.batches import grid_batch
from clew.mazes.generate import generate
from clew.models import passage_loops
from clew.models.grid_layers import plain_norm
from clew.models.passage_loops import StepWeights, groups, still_looping, walk
from clew.models.passages import PassageStep, by_hand, plain_passage_step

WIDTH = 8


def cells_of(family: str, height: int, width: int, count: int) -> Tensor:
    tasks = generate(family, height, width, seed=0, first=0, count=count, side="any")
    return grid_batch(tasks, np.arange(count), tail=2).cells_BHW


def random(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def random_steps(count: int, hidden: int) -> list[StepWeights]:
    return [(random(2 * hidden, WIDTH, seed=i), random(WIDTH, hidden, seed=10 + i)) for i in range(count)]


def plain_walk(
    x_BND: Tensor, cells_BHW: Tensor, weights: list[StepWeights], loops_B: list[int], embedded_BND: Tensor | None
) -> Tensor:
    """Maze after maze, loop after loop, step after step."""
    rows = []
    for b, loops in enumerate(loops_B):
        x = x_BND[b : b + 1]
        for _ in range(loops):
            if embedded_BND is not None:
                x = plain_norm(x) + embedded_BND[b]
            for step in weights:
                x = plain_passage_step(x, cells_BHW[b : b + 1], *step)
        rows.append(x)
    return torch.cat(rows)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@given(
    st.integers(2, 5),
    st.integers(2, 6),
    st.sampled_from(["dfs", "percolation", "walls"]),
    st.integers(1, 2),
    st.sampled_from([3, 12, 16, 32]),  # hidden: one number, four and sixteen at once
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.sampled_from([1, 50, 10_000]),  # each maze alone, some together, all together
)
@settings(max_examples=40, deadline=None)
def test_loops_by_hand_are_the_plain_ones(
    height: int, width: int, family: str, threads: int, hidden: int, loops: list[int], together: int
) -> None:
    if family == "walls":
        height, width = height + 3, width + 3  # smaller ones seldom have a path that is long enough
    loops.sort(reverse=True)
    cells_BHW = cells_of(family, height, width, len(loops))
    x, embedded = (random(len(loops), height * width, WIDTH, seed=seed) for seed in (1, 2))
    weights = random_steps(2, hidden)
    given_tensors = (x, embedded, *weights[0], *weights[1])
    with pytest.MonkeyPatch.context() as patch, torch_threads(threads):
        patch.setattr(passage_loops, "TOGETHER", together)
        by_hand = walk(x, cells_BHW, weights, loops, embedded)
        grads_by_hand = torch.autograd.grad(by_hand.sin().sum(), given_tensors)
        with torch.no_grad():
            assert torch.equal(walk(x, cells_BHW, weights, loops, embedded), by_hand)
    plain = plain_walk(x, cells_BHW, weights, loops, embedded)
    torch.testing.assert_close(by_hand, plain)
    for ours, theirs in zip(grads_by_hand, torch.autograd.grad(plain.sin().sum(), given_tensors), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_without_an_embedding_each_step_is_taken_once() -> None:
    cells_BHW = cells_of("dfs", 4, 5, 3)
    x, weights = random(3, 20, WIDTH, seed=1), random_steps(2, 12)
    by_hand, plain = walk(x, cells_BHW, weights), plain_walk(x, cells_BHW, weights, [1, 1, 1], None)
    torch.testing.assert_close(by_hand, plain)
    torch.testing.assert_close(torch.autograd.grad(by_hand.sin().sum(), x), torch.autograd.grad(plain.sin().sum(), x))


def test_vectors_may_lie_anyhow_in_memory() -> None:
    cells_BHW = cells_of("dfs", 4, 5, 3).transpose(1, 2).contiguous().transpose(1, 2)
    x_BND = random(WIDTH, 20, 3, seed=1).permute(2, 1, 0)
    weights = random_steps(1, 12)
    assert not x_BND.is_contiguous()
    by_hand, plain = (
        walk(x_BND, cells_BHW, weights, [2, 2, 1], x_BND),
        plain_walk(x_BND, cells_BHW, weights, [2, 2, 1], x_BND),
    )
    torch.testing.assert_close(by_hand, plain)
    turned = (
        torch.ones(WIDTH, 20, 3, dtype=torch.float64).permute(2, 1, 0) * x_BND.detach()
    )  # a gradient that is turned
    ours, theirs = (torch.autograd.grad(y, weights[0], turned) for y in (by_hand, plain))
    torch.testing.assert_close(ours, theirs)


def test_what_is_given_stays_as_it_is_and_one_can_go_back_twice() -> None:
    cells_BHW = cells_of("dfs", 4, 4, 2)
    x, weights = random(2, 16, WIDTH, seed=1), random_steps(1, 4)
    before = x.detach().clone()
    loss = walk(x, cells_BHW, weights, [3, 2], x).sin().sum()
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(x, before)
    assert torch.equal(first, second)


def test_nothing_is_kept_where_no_gradient_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    forth = passage_loops.forth
    monkeypatch.setattr(passage_loops, "forth", lambda *given: seen.append(forth(*given)) or seen[-1])
    cells_BHW, x, weights = cells_of("dfs", 4, 4, 2), random(2, 16, WIDTH, seed=1), random_steps(2, 4)
    with torch.no_grad():
        walk(x, cells_BHW, weights, [3, 2], x)
    walk(x, cells_BHW, weights, [3, 2], x)
    assert [[len(each) for each in walked] for walked in seen] == [[0, 0, 0], [3, 6, 6]]


def test_mazes_go_in_groups_and_stop_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_loops, "TOGETHER", 2 * 16)
    with torch_threads(1):
        assert groups(torch.zeros(5, 16, WIDTH)) == [slice(0, 2), slice(2, 4), slice(4, 6)]
    with torch_threads(2):
        assert groups(torch.zeros(5, 16, WIDTH)) == [slice(0, 4), slice(4, 8)]
    assert still_looping([4, 4, 2, 1]) == [4, 3, 2, 2]


def test_numbers_of_half_the_length_are_left_to_torch() -> None:
    step = PassageStep(WIDTH, 1).bfloat16()
    torch.nn.init.ones_(step.think.weight)
    x_BND, cells_BHW = random(2, 16, WIDTH, seed=1).bfloat16(), cells_of("dfs", 4, 4, 2)
    assert not by_hand(x_BND)
    assert torch.equal(step(x_BND, cells_BHW), plain_passage_step(x_BND, cells_BHW, *step.weights()))
