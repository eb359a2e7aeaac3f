"""Numbers too small to be computed with quickly are zero in training, on every thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny_config

from clew.training.config import Budget
from clew.training.train import LocalBatch, Trainer, train

# Products that would be 1e-40: of torch, shared by two threads, and on the threads of the kernels.
PRODUCTS = """
import sys
import torch
from clew.models.cpu_kernels.message_passing import map_groups
torch.set_num_threads(2)
torch.set_flush_denormal(sys.argv[1] == "flush")
small = torch.full((1 << 20,), 1e-20)
products = small * small
of_kernels = map_groups(lambda i: bool(torch.tensor(1e-20) * torch.tensor(1e-20) != 0), 8)
print(int((products != 0).sum()), sum(of_kernels))
"""


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
@pytest.mark.parametrize(("how", "left"), [("flush", "0 0"), ("do not", f"{1 << 20} 8")])
def test_tiny_products_are_zero_on_every_thread(how: str, left: str) -> None:
    done = subprocess.run([sys.executable, "-c", PRODUCTS, how], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == left


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
def test_training_does_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    real = Trainer.compute_gradient

    def compute(self: Trainer, local: LocalBatch) -> Any:
        seen.append(float(torch.tensor(1e-20) * torch.tensor(1e-20)))
        return real(self, local)

    monkeypatch.setattr(Trainer, "compute_gradient", compute)
    train(tiny_config(budget=Budget(steps=1)), tmp_path)
    assert seen == [0.0]
    assert torch.tensor(1e-20) * torch.tensor(1e-20) > 0  # and afterwards all is as before
