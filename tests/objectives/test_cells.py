"""Objectives on labels of cells."""

import numpy as np
import torch

from clew.data.batch import CellBatch, cell_batch
from clew.mazes.generate import generate
from clew.objectives.config import ObjectiveConfig, RateConfig, build_objective


def mazes(family: str = "astar", count: int = 60) -> CellBatch:
    return cell_batch(generate(family, 6, 5, seed=1, first=0, count=count, split="any"), np.arange(count))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_labels_are_the_cells_of_the_path() -> None:
    tasks = generate("astar", 6, 5, seed=1, first=0, count=60, split="any")
    batch = mazes()
    for i in range(60):
        path = tasks.path_of(i).tolist()
        assert batch.tokens_BT[i].nonzero()[:, 0].tolist() == sorted(path)
        assert batch.step_BT[i, path].tolist() == list(range(1, len(path) + 1))
        assert bool(batch.valid_BT[i, path].all())
    walls = (batch.cells_BHW.flatten(1) & 16) != 0
    assert not bool((walls & batch.valid_BT).any())


def test_mlm_u_hides_labels_of_reachable_cells() -> None:
    batch = mazes()
    targets = build_objective(ObjectiveConfig())(batch, generator())
    assert not bool((targets.query_BT & ~batch.valid_BT).any())
    assert 0.35 < float(targets.query_BT.sum() / batch.valid_BT.sum()) < 0.65
    assert bool((targets.order_BT[~batch.valid_BT] == -1).all())


def test_a_share_of_the_mazes_is_fully_hidden() -> None:
    batch = mazes()
    targets = build_objective(ObjectiveConfig("mlm-u", RateConfig(fully_hidden=0.5)))(batch, generator())
    full = (targets.query_BT == batch.valid_BT).all(1)
    assert 30 <= int(full.sum()) <= 33


def test_next_token_asks_for_the_neighbours_of_a_prefix() -> None:
    batch = mazes("dfs")
    targets = build_objective(ObjectiveConfig("next-token"))(batch, generator())
    lengths = []
    for i in range(60):
        visible = (targets.order_BT[i] == 0).nonzero()[:, 0].tolist()
        prefix = sorted(visible, key=lambda cell: int(batch.step_BT[i, cell]))
        assert [int(batch.step_BT[i, cell]) for cell in prefix] == list(range(1, len(prefix) + 1))
        asked = targets.query_BT[i].nonzero()[:, 0].tolist()
        end, sides = prefix[-1], int(batch.cells_BHW[i].flatten()[prefix[-1]])
        near = [end + move for bit, move in ((1, -5), (2, 5), (4, -1), (8, 1)) if sides & bit]
        assert sorted(asked) == sorted(cell for cell in near if cell not in prefix)
        assert int(batch.tokens_BT[i, asked].sum()) == 1
        lengths.append((len(prefix), int(batch.tokens_BT[i].sum())))
    assert any(prefix == 1 for prefix, _ in lengths)
    assert any(prefix == length - 1 > 1 for prefix, length in lengths)


def test_ordered_masks_follow_the_path() -> None:
    batch = mazes()
    for name, first_visible in (("ordered", True), ("ordered-reverse", False)):
        targets = build_objective(ObjectiveConfig(name))(batch, generator())
        visible = targets.order_BT == 0
        assert not bool((visible & (batch.tokens_BT == 0)).any()), "labels off the path are always hidden"
        assert bool(visible.any())
        for i in visible.any(1).nonzero()[:, 0].tolist():
            steps = sorted(batch.step_BT[i][visible[i]].tolist())
            length = int(batch.tokens_BT[i].sum())
            assert steps == (
                list(range(1, len(steps) + 1)) if first_visible else list(range(length - len(steps) + 1, length + 1))
            )
