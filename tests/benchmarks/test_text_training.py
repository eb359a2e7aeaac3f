"""The benchmark measures what it says; its numbers depend on the machine and are not tested."""

from __future__ import annotations

from pathlib import Path

import pytest
import text_training
import torch

from clew.errors import UserError
from clew.files import read_json
from clew.models.blocks import Attention


def test_both_forms_compute_the_same_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packed, pack = [], Attention.pack

    def counted(self: Attention, real_BQ: torch.Tensor, real_BK: torch.Tensor) -> None:
        packed.append(self)
        pack(self, real_BQ, real_BK)

    monkeypatch.setattr(text_training, "laptop_text", small_laptop_text)
    monkeypatch.setattr(Attention, "pack", counted)
    before = torch.get_num_threads()
    text_training.main(sides=(3,), steps=2, out=tmp_path / "x.json")
    report = read_json(tmp_path / "x.json")
    assert [each["objective"] for each in report["measured"]] == ["next-token", "mlm-u"]
    assert len(packed) == 3 + 2 * 3  # one mask and two masks in each of three steps: only one form is packed
    for each in report["measured"]:
        assert len(each["padded_seconds"]) == len(each["packed_seconds"]) == 2
        assert each["largest_loss_difference"] <= each["loss_tolerance"] == 1e-6
        assert len(set(each["losses_packed"])) == 2
    assert text_training.table(report["measured"]) in capsys.readouterr().out
    assert torch.get_num_threads() == before


def small_laptop_text(objective: str, side: int) -> object:
    from clew.paper.study import laptop_text

    return laptop_text(objective, 4, depth=4)  # type: ignore[arg-type]


def test_bad_options_get_one_sentence() -> None:
    with pytest.raises(UserError, match="must be 1 or more"):
        text_training.main(steps=0)


def test_the_page_on_training_quotes_the_measured_numbers() -> None:
    root = Path(__file__).parents[2]
    report = read_json(root / "results" / "text-training-speed.json")
    assert text_training.table(report["measured"]) in (root / "docs" / "training.md").read_text()
    for each in report["measured"]:
        assert each["largest_loss_difference"] <= 1e-6
        assert each["ratio"] >= report["target"] or each["side"] != 4
