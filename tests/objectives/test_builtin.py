"""Which positions each objective hides and queries, how often, and with what weight."""

import numpy as np
import pytest
import torch
from objective_batches import token_batch

from clew.data.batch import Batch, CellBatch, cell_batch
from clew.mazes.generate import generate
from clew.objectives.builtin import build_objective
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.objectives.targets import Noise, Targets

ROWS = 6000


def draw_targets(config: ObjectiveConfig, batch: Batch, seed: int = 0) -> Targets:
    return build_objective(config)(batch, torch.Generator().manual_seed(seed))


def chi_square_uniform(values: torch.Tensor, low: int, high: int) -> float:
    """The chi-square statistic per degree of freedom of integers that should be uniform on low .. high."""
    count = torch.bincount(values - low, minlength=high - low + 1).float()
    assert len(count) == high - low + 1, "a value out of range"
    expected = len(values) / len(count)
    return float(((count - expected) ** 2 / expected).sum() / (len(count) - 1))


@pytest.mark.parametrize("name", ["mlm-u", "fixed-rate", "ordered", "ordered-reverse"])
@pytest.mark.parametrize("prompt", [3, 0])
def test_question_is_well_formed(name, prompt):
    batch = token_batch([9, 4, 1, 12], prompt)
    targets = draw_targets(ObjectiveConfig(name), batch)
    assert targets.order_BT.dtype == torch.int64
    assert targets.weight_BT.dtype == torch.float32
    assert (targets.order_BT[~batch.valid_BT] == -1).all()
    assert (targets.order_BT[batch.valid_BT & ~batch.response_BT] == 0).all()
    assert not (targets.query_BT & ~batch.response_BT).any()
    assert torch.equal(targets.order_BT == 1, targets.query_BT)
    assert torch.equal(targets.target_BT, batch.tokens_BT)
    assert torch.equal(targets.weight_BT, targets.query_BT.float())


@pytest.mark.parametrize("sampling", ["sequence", "stratified"])
def test_mlmu_hides_a_uniform_number_of_tokens(sampling):
    """With u ~ U(0, 1), the number of hidden tokens of n is uniform on 0 .. n."""
    targets = draw_targets(ObjectiveConfig("mlm-u", RateConfig(sampling=sampling)), token_batch([9] * ROWS))
    assert chi_square_uniform(targets.query_BT.sum(1), 0, 9) < 3  # 9 degrees of freedom: p below 0.002


def test_mlmu_hides_every_subset_of_one_size_alike():
    targets = draw_targets(ObjectiveConfig(), token_batch([4] * ROWS, prompt=0, padding=0))
    subset_B = (targets.query_BT * torch.tensor([1, 2, 4, 8])).sum(1)
    pairs = [3, 5, 6, 9, 10, 12]
    chosen_B = torch.tensor([pairs.index(s) for s in subset_B.tolist() if s in pairs])
    assert len(chosen_B) > ROWS / 6
    assert chi_square_uniform(chosen_B, 0, 5) < 4


def test_batch_sampling_gives_all_rows_one_rate():
    """The shares of two rows then agree over many batches, and with a rate for each row they do not."""
    batch = token_batch([200, 200])
    for sampling, low, high in (("batch", 0.95, 1.0), ("sequence", -0.3, 0.3)):
        objective = build_objective(ObjectiveConfig("mlm-u", RateConfig(sampling=sampling)))
        generator = torch.Generator().manual_seed(1)
        share = torch.stack([objective(batch, generator).query_BT.sum(1) / 200 for _ in range(150)])
        assert low <= float(torch.corrcoef(share.T)[0, 1]) <= high


def test_fixed_rate():
    targets = draw_targets(ObjectiveConfig("fixed-rate"), token_batch([20] * ROWS))
    count = targets.query_BT.sum(1).double()
    assert float(count.mean()) == pytest.approx(20 * 0.15, abs=0.1)
    assert float(count.var()) == pytest.approx(20 * 0.15 * 0.85, abs=0.2)
    third = draw_targets(ObjectiveConfig("fixed-rate", RateConfig(fixed=1 / 3)), token_batch([20] * ROWS))
    assert float(third.query_BT.sum(1).double().mean()) == pytest.approx(20 / 3, abs=0.15)


@pytest.mark.parametrize(("name", "hidden_first"), [("ordered", False), ("ordered-reverse", True)])
def test_ordered_masks_hide_one_side_of_a_uniform_cut(name, hidden_first):
    targets = draw_targets(ObjectiveConfig(name), token_batch([7] * ROWS, prompt=2, padding=1))
    hidden_BN = targets.query_BT[:, 2:9]
    count_B = hidden_BN.sum(1)
    assert chi_square_uniform(count_B, 1, 7) < 3.5
    place_N = torch.arange(7)
    expected = place_N < count_B[:, None] if hidden_first else place_N >= 7 - count_B[:, None]
    assert torch.equal(hidden_BN, expected)


def test_ordered_mask_always_hides_a_token():
    for length in (1, 2, 3):
        targets = draw_targets(ObjectiveConfig("ordered", RateConfig("fixed", fixed=1.0)), token_batch([length] * 50))
        assert (targets.query_BT.sum(1) == length).all()
        targets = draw_targets(ObjectiveConfig("ordered"), token_batch([length] * 50))
        assert (targets.query_BT.sum(1) >= 1).all()


def test_at_least_one():
    batch = token_batch([5] * ROWS)
    rates = RateConfig("fixed", fixed=0.05)
    plain = draw_targets(ObjectiveConfig("mlm-u", rates), batch)
    forced = draw_targets(ObjectiveConfig("mlm-u", rates, at_least_one=True), batch)
    empty_B = ~plain.query_BT.any(1)
    assert 0.7 < float(empty_B.double().mean()) < 0.85  # 0.95^5 = 0.774
    assert torch.equal(forced.query_BT[~empty_B], plain.query_BT[~empty_B])
    assert (forced.query_BT[empty_B].sum(1) == 1).all()
    assert chi_square_uniform(forced.query_BT[empty_B][:, 3:8].long().argmax(1), 0, 4) < 4.5


def test_a_row_without_response_asks_nothing():
    batch = token_batch([5, 3])
    batch = type(batch)(
        batch.tokens_BT, batch.valid_BT, batch.response_BT & torch.tensor([[True], [False]]), batch.index_B
    )
    for config in (ObjectiveConfig(at_least_one=True), ObjectiveConfig("ordered"), ObjectiveConfig("ordered-reverse")):
        assert not draw_targets(config, batch).query_BT[1].any()


def test_weighting_by_rate():
    batch = token_batch([10] * ROWS)
    targets = draw_targets(ObjectiveConfig("mlm-u", RateConfig("fixed", fixed=0.25), weighting="rate"), batch)
    assert torch.equal(targets.weight_BT, targets.query_BT * 4.0)
    # With uniform rates the weights of a row add up to its length on average: the bound counts every token once.
    targets = draw_targets(ObjectiveConfig(weighting="rate"), batch)
    assert float(targets.weight_BT.sum(1).mean()) == pytest.approx(10, rel=0.05)
    assert float(targets.weight_BT.max()) <= 100


def test_max_weight_clips_the_weights():
    targets = draw_targets(ObjectiveConfig(weighting="rate", max_weight=4), token_batch([10] * ROWS))
    assert float(targets.weight_BT.max()) == 4
    plain = draw_targets(ObjectiveConfig(weighting="rate"), token_batch([10] * ROWS))
    assert torch.equal(targets.weight_BT, plain.weight_BT.clamp(max=4))


def test_fully_hidden_rows_hide_everything():
    targets = draw_targets(ObjectiveConfig("mlm-u", RateConfig(fully_hidden=0.5)), token_batch([7] * 100))
    assert int((targets.query_BT.sum(1) == 7).sum()) >= 50


def test_prefix_next_token_asks_the_token_after_a_uniform_prefix():
    targets = draw_targets(ObjectiveConfig("prefix-next-token"), token_batch([7] * ROWS, prompt=2, padding=1))
    assert (targets.query_BT.sum(1) == 1).all()
    query_B = targets.query_BT.long().argmax(1)
    assert chi_square_uniform(query_B, 2, 8) < 3.5
    hidden_BT = targets.order_BT == 1
    assert torch.equal(hidden_BT[:, :9], torch.arange(9) >= query_B[:, None])
    assert torch.equal(targets.weight_BT, targets.query_BT.float())


class Sure:
    """A model whose certainty of a token grows with its position in the row, and which counts how many rows it saw."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, batch: Batch, order_BT: torch.Tensor, query_BT: torch.Tensor) -> torch.Tensor:
        self.rows += len(batch)
        assert torch.equal(order_BT == 1, batch.response_BT)  # all of the response is hidden
        place_Q = query_BT.nonzero()[:, 1].float()
        return torch.stack([place_Q, torch.zeros_like(place_Q)], 1)


def test_confidence_masks_hide_what_the_model_is_least_sure_of():
    batch = token_batch([6] * 400)
    noise = Noise.for_step(0, 0, torch.arange(400), 400)
    objective = build_objective(ObjectiveConfig(confidence_share=1.0))
    targets = objective.targets_for(Sure(), batch, noise)
    count_B = targets.query_BT.sum(1)
    assert chi_square_uniform(count_B, 1, 6) < 4
    assert torch.equal(targets.query_BT[:, 3:9], torch.arange(6) < count_B[:, None])  # the left is least sure
    assert not targets.query_BT[:, :3].any()


def test_confidence_masks_are_for_a_share_of_the_rows():
    batch, model = token_batch([6] * 400), Sure()
    noise = Noise.for_step(0, 0, torch.arange(400), 400)
    objective = build_objective(ObjectiveConfig(confidence_share=0.25))
    targets = objective.targets_for(model, batch, noise)
    assert model.rows == 100
    other_B = (targets.query_BT != objective.targets(batch, noise).query_BT).any(1)
    assert 50 < int(other_B.sum()) <= 100


@pytest.mark.parametrize("setting", [{"confidence_share": 0.3}, {"rates": RateConfig(fully_hidden=0.3)}])
def test_a_row_is_hidden_alike_in_any_part_of_the_batch(setting):
    batch, objective = token_batch([6, 3, 9, 4, 5, 7, 2, 8]), build_objective(ObjectiveConfig(**setting))
    whole = objective.targets_for(Sure(), batch, Noise.for_step(3, 5, torch.arange(8), 8))
    for first in range(8):  # also parts without any row of the share
        row_B = torch.arange(first, first + 1)
        part = objective.targets_for(Sure(), batch.rows(row_B), Noise.for_step(3, 5, row_B, 8))
        assert torch.equal(part.order_BT, whole.order_BT[row_B])


# Next token and any order


def test_next_token_by_hand():
    batch = token_batch([3, 2], prompt=2, padding=1)
    for name in ("next-token", "trace"):
        targets = build_objective(ObjectiveConfig(name))(batch, torch.Generator())
        assert targets.order_BT.tolist() == [[0, 0, 1, 2, 3, -1], [0, 0, 1, 2, -1, -1]]
        assert torch.equal(targets.query_BT, batch.response_BT)
        assert torch.equal(targets.target_BT, batch.tokens_BT)
        assert torch.equal(targets.weight_BT, batch.response_BT.float())


@pytest.mark.parametrize("prompt", [3, 0])
def test_any_order_ranks_are_a_permutation(prompt):
    lengths = [9, 4, 1, 12]
    batch = token_batch(lengths, prompt)
    targets = build_objective(ObjectiveConfig("any-order"))(batch, torch.Generator().manual_seed(0))
    for order_T, response_T, length in zip(targets.order_BT, batch.response_BT, lengths, strict=True):
        assert sorted(order_T[response_T].tolist()) == list(range(1, length + 1))
    assert (targets.order_BT[batch.valid_BT & ~batch.response_BT] == 0).all()
    assert (targets.order_BT[~batch.valid_BT] == -1).all()
    assert torch.equal(targets.query_BT, batch.response_BT)


def test_any_order_draws_every_order_alike():
    rows = 6000
    targets = build_objective(ObjectiveConfig("any-order"))(
        token_batch([3] * rows, prompt=1, padding=0), torch.Generator().manual_seed(0)
    )
    code_B = (targets.order_BT[:, 1:] * torch.tensor([100, 10, 1])).sum(1)
    codes, count = code_B.unique(return_counts=True)
    assert codes.tolist() == [123, 132, 213, 231, 312, 321]
    chi2 = float(((count - rows / 6) ** 2 / (rows / 6)).sum())
    assert chi2 < 20  # 5 degrees of freedom: p about 0.001


# Labels of cells


def mazes(family: str = "astar", count: int = 60) -> CellBatch:
    return cell_batch(generate(family, 6, 5, seed=1, first=0, count=count, split="any"), np.arange(count))


def seeded() -> torch.Generator:
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
    targets = build_objective(ObjectiveConfig())(batch, seeded())
    assert not bool((targets.query_BT & ~batch.valid_BT).any())
    assert 0.35 < float(targets.query_BT.sum() / batch.valid_BT.sum()) < 0.65
    assert bool((targets.order_BT[~batch.valid_BT] == -1).all())


def test_a_share_of_the_mazes_is_fully_hidden() -> None:
    batch = mazes()
    targets = build_objective(ObjectiveConfig("mlm-u", RateConfig(fully_hidden=0.5)))(batch, seeded())
    full = (targets.query_BT == batch.valid_BT).all(1)
    assert 30 <= int(full.sum()) <= 33


def test_next_token_asks_for_the_neighbours_of_a_prefix() -> None:
    batch = mazes("dfs")
    targets = build_objective(ObjectiveConfig("next-token"))(batch, seeded())
    lengths = []
    for i in range(60):
        visible = (targets.order_BT[i] == 0).nonzero()[:, 0].tolist()
        prefix = sorted(visible, key=lambda cell: int(batch.step_BT[i, cell]))
        assert [int(batch.step_BT[i, cell]) for cell in prefix] == list(range(1, len(prefix) + 1))
        queried = targets.query_BT[i].nonzero()[:, 0].tolist()
        end, sides = prefix[-1], int(batch.cells_BHW[i].flatten()[prefix[-1]])
        near = [end + move for bit, move in ((1, -5), (2, 5), (4, -1), (8, 1)) if sides & bit]
        assert sorted(queried) == sorted(cell for cell in near if cell not in prefix)
        assert int(batch.tokens_BT[i, queried].sum()) == 1
        lengths.append((len(prefix), int(batch.tokens_BT[i].sum())))
    assert any(prefix == 1 for prefix, _ in lengths)
    assert any(prefix == length - 1 > 1 for prefix, length in lengths)


def test_ordered_masks_follow_the_path() -> None:
    batch = mazes()
    for name, first_visible in (("ordered", True), ("ordered-reverse", False)):
        targets = build_objective(ObjectiveConfig(name))(batch, seeded())
        visible = targets.order_BT == 0
        assert not bool((visible & (batch.tokens_BT == 0)).any()), "labels off the path are always hidden"
        assert bool(visible.any())
        for i in visible.any(1).nonzero()[:, 0].tolist():
            steps = sorted(batch.step_BT[i][visible[i]].tolist())
            length = int(batch.tokens_BT[i].sum())
            assert steps == (
                list(range(1, len(steps) + 1)) if first_visible else list(range(length - len(steps) + 1, length + 1))
            )
