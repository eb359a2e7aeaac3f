"""Numbers too small to be computed with quickly are zero in training, on every thread."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clew.benchmarks import cost_work
from clew.experiments.grid_presets import single_size
from clew.models.grid_pointer import GridPointerConfig
from clew.training import loop
from clew.training.config import Budget
from clew.training.step import accumulate_gradient

# Products of torch and of a kernel, each shared by two threads, that would be 1e-40.
PRODUCTS = """
import sys
from contextlib import nullcontext
import torch
from clew.models.kernels import mix, over_rows
from clew.training.tiny_numbers import tiny_numbers_are_zero

torch.set_num_threads(2)
with tiny_numbers_are_zero() if sys.argv[1] == "flush" else nullcontext():
    small = torch.full((1 << 20,), 1e-20)
    both, mixed = torch.full((200, 8), 0.5e-20), torch.empty(200, 4)
    over_rows(mix, torch.tensor([[[2], [1]]] * 100, dtype=torch.uint8), both, mixed)
    products = small * small
print(int((products != 0).sum()), int((mixed != 0).sum()))
"""


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
@pytest.mark.parametrize(("how", "left"), [("flush", "0 0"), ("do not", f"{1 << 20} 800")])
def test_tiny_products_are_zero_on_every_thread(how: str, left: str) -> None:
    done = subprocess.run([sys.executable, "-c", PRODUCTS, how], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == left


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
def test_training_and_its_benchmark_do_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def accumulate(*given: Any, **options: Any) -> Any:
        seen.append(float(torch.tensor(1e-20) * torch.tensor(1e-20)))
        return accumulate_gradient(*given, **options)

    for module in (loop, cost_work):
        monkeypatch.setattr(module, "accumulate_gradient", accumulate)
    small = GridPointerConfig(width=16, heads=2)
    cost_work.TrainingStep(small, "dfs", side=3, mazes=1).forward_backward()
    loop.train(replace(single_size("grid-pointer", 3), model=small, batch_size=2, budget=Budget(steps=1)), tmp_path)
    assert seen == [0.0, 0.0]
    assert torch.tensor(1e-20) * torch.tensor(1e-20) > 0  # and afterwards all is as before
