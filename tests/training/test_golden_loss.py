"""Twenty steps of every objective with every model that fits it: the losses stay what they were.

A change that is meant to leave training as it is must leave this test as it is. Where training is meant to change,
write the losses anew and say why in the commit:

    python tests/training/test_golden_loss.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from clew.data.config import DataConfig
from clew.models.config import CellNetworkConfig, DecoderOnlyConfig, EncoderDecoderConfig, ModelConfig
from clew.objectives.config import ObjectiveConfig, ObjectiveName
from clew.training.config import Budget, OptimizerConfig, TrainConfig
from clew.training.train import train

GOLDEN = Path(__file__).parents[1] / "golden" / "loss_curves.json"
STEPS = 20

MODELS: dict[str, ModelConfig] = {
    "encoder-decoder": EncoderDecoderConfig(128, 16, 2, encoder_depth=1, decoder_depth=1),
    "causal-encoder-decoder": EncoderDecoderConfig(128, 16, 2, encoder_depth=1, decoder_depth=1, causal=True),
    "decoder-only": DecoderOnlyConfig(128, 16, 2, depth=2),
    "cell-network": CellNetworkConfig(width=16, hidden=16),
}
FITTING: dict[str, tuple[ObjectiveName, ...]] = {
    "encoder-decoder": ("mlm-u", "fixed-rate", "ordered", "ordered-reverse", "next-token", "any-order", "trace"),
    "causal-encoder-decoder": ("ordered", "next-token", "trace"),
    "decoder-only": ("next-token", "trace"),
    "cell-network": ("mlm-u", "fixed-rate", "ordered", "ordered-reverse", "next-token"),
}


def _config(model: str, objective: ObjectiveName) -> TrainConfig:
    data = DataConfig(sizes=(3,))
    if objective == "trace":  # which only mazes of wall cells have
        data = DataConfig(family="astar", sizes=(4,), format="wall-list-trace")
    elif model == "cell-network":
        data = DataConfig(sizes=(3, 4), format="cell-labels", mixture="grow", grow_steps=10)
    # Both optimizers have their turn.
    return TrainConfig(
        data=data,
        model=MODELS[model],
        objective=ObjectiveConfig(objective),
        budget=Budget(steps=STEPS),
        optimizer=OptimizerConfig("muon" if objective in ("mlm-u", "next-token") else "adamw"),
        batch_size=8,
        log_every=1,
        seed=1,
        held_out=0,
    )


CASES = {
    f"{model} {objective}": _config(model, objective)
    for model, objectives in FITTING.items()
    for objective in objectives
}


def curve(config: TrainConfig, folder: Path) -> list[float]:
    """The loss of each step."""
    train(config, folder)
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "step"]


@pytest.mark.parametrize("case", CASES)
def test_the_losses_are_what_they_were(case: str, tmp_path: Path) -> None:
    golden = json.loads(GOLDEN.read_text())
    found = curve(CASES[case], tmp_path)
    assert len(found) == STEPS
    assert found == pytest.approx(golden[case], abs=1e-4)


def test_the_golden_file_has_these_cases_and_no_others() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(CASES)


def main() -> None:
    """Write the losses of this very version."""
    torch.set_num_threads(1)  # as in the tests; more only wait for one another
    curves = {}
    for case, config in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            curves[case] = [round(loss, 5) for loss in curve(config, Path(folder))]
        print(case, curves[case][0], "->", curves[case][-1], file=sys.stderr)
    lines = ",\n".join(f'  "{case}": {json.dumps(losses)}' for case, losses in curves.items())
    GOLDEN.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
