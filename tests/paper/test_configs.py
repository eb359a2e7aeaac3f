"""Every field of the paper's configs against tables of what its text and its published code say.

The tables are written down here, apart from the implementation: a field that leaves its table fails.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from clew.api import change_config
from clew.data.config import DataConfig
from clew.errors import UserError
from clew.models.build import build_model, count_parameters
from clew.models.config import kind_of
from clew.paper.configs import paper, published
from clew.paper.named_configs import config_named
from clew.tokenization.format import format_named
from clew.training.config import TrainConfig

# Width, heads, layers; an encoder-decoder gives half of the layers to each stack.
MODELS = {"3m": (128, 4, 14), "8m": (128, 4, 40), "25m": (256, 4, 32)}
FORMATS = {"dfs": "edge-list", "astar": "wall-list"}

# What no run of either kind changes.
ALL_RUNS: dict[str, Any] = {
    "micro_batch": None,
    "clip": 1.0,
    "ema": None,
    "precision": "fp16",
    "compile": False,
    "start_from": "",
    "held_out": 2000,
    "optimizer.kind": "adamw",
    "optimizer.lr": 1e-3,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.eps": 1e-8,
    "schedule.kind": "one-cycle",
    "schedule.warmup": 0.05,
    "schedule.start": 1 / 25,
    "schedule.end": 1 / 625,
    "schedule.power": 1.0,
    "objective.rates.shape": "uniform",
    "objective.rates.sampling": "sequence",
    "objective.rates.fully_hidden": 0.0,
    "objective.weighting": "token",
    "objective.max_weight": 100.0,
    "objective.confidence_share": 0.0,
    "objective.at_least_one": False,
    "data.source": "dataset",
    "data.width": None,
    "data.long_share": 0.0,
    "data.longest_of": 64,
    "budget.steps": None,
    "budget.minutes": None,
}

# The networks. Text: docs/paper-and-code.md says what it leaves open.
ENCODER_DECODER = {
    "model.positions": "rope-fp32",
    "model.init": "pytorch",
    "model.activation": "gelu",
    "model.head_bias": True,
    "model.causal": False,
    "model.attend_self": True,
}
CAUSAL_ENCODER_DECODER = ENCODER_DECODER | {"model.causal": True, "model.attend_self": False}
PAPER_DECODER_ONLY = {
    "model.positions": "rope-fp32",
    "model.init": "gpt-2",
    "model.activation": "gelu",
    "model.head_bias": True,
    "model.bos_id": None,
}
PUBLISHED_DECODER_ONLY = {
    "model.positions": "learned",
    "model.max_length": 2048,
    "model.init": "gpt-2",
    "model.activation": "relu",
    "model.head_bias": False,
}

# Family, size, objective, model: global batch, epochs, weight decay, epochs between evaluations, training mazes, ids.
PUBLISHED: dict[tuple[str, int, str, str], tuple[int, int, float, int, int, int]] = {
    ("dfs", 5, "mlm-u", "8m"): (128, 2000, 1e-4, 20, 98_000, 128),
    ("dfs", 5, "next-token", "8m"): (128, 2000, 1e-4, 20, 98_000, 128),
    ("dfs", 10, "mlm-u", "8m"): (128, 1000, 1e-4, 25, 98_000, 128),
    ("dfs", 10, "next-token", "8m"): (128, 2000, 1e-4, 20, 98_000, 128),
    ("dfs", 30, "mlm-u", "8m"): (256, 2000, 1e-4, 50, 98_000, 1024),
    ("dfs", 10, "mlm-u", "3m"): (512, 500, 1e-4, 20, 98_000, 128),
    ("dfs", 20, "mlm-u", "3m"): (256, 2500, 1e-4, 100, 98_000, 512),
    ("dfs", 30, "mlm-u", "3m"): (512, 2000, 1e-4, 100, 98_000, 1024),
    ("dfs", 30, "mlm-u", "25m"): (2048, 2000, 1e-4, 50, 98_000, 1024),
    ("astar", 10, "mlm-u", "8m"): (512, 1000, 0.0, 25, 100_000, 128),
    ("astar", 20, "mlm-u", "8m"): (512, 2000, 1e-4, 50, 100_000, 512),
    ("astar", 30, "mlm-u", "8m"): (512, 2000, 1e-4, 50, 100_000, 1024),
    ("astar", 10, "mlm-u", "3m"): (512, 500, 1e-4, 20, 100_000, 128),
    ("astar", 20, "mlm-u", "3m"): (256, 2500, 1e-4, 100, 100_000, 512),
    ("astar", 30, "mlm-u", "3m"): (512, 2000, 1e-4, 100, 100_000, 1024),
    ("astar", 30, "mlm-u", "25m"): (1024, 3000, 1e-4, 100, 100_000, 1024),
}

# What the paper's studies change: keywords of paper(), and the fields that they set.
PAPER_CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"weight_decay": 1e-2, "epochs": 500}, {"optimizer.weight_decay": 1e-2, "budget.epochs": 500}),
    ({"lr": 3e-4}, {"optimizer.lr": 3e-4}),
    ({"mazes": 25_000, "epochs": 2000}, {"data.mazes": 25_000, "budget.epochs": 2000}),
    ({"positions": "rope-fp16"}, {"model.positions": "rope-fp16"}),
    ({"mazes": 100, "positions": "rope-fp16"}, {"data.mazes": 100, "model.positions": "rope-fp16"}),
]
PAPER_SIZES = {"dfs": {5, 10, 15, 20, 30}, "astar": {10, 20, 30}}


def flat(config: TrainConfig) -> dict[str, Any]:
    """Every field under its whole name, such as objective.rates.shape."""
    found: dict[str, Any] = {"kind": kind_of(config.model)}

    def walk(value: Any, prefix: str) -> None:
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if dataclasses.is_dataclass(inner):
                walk(inner, f"{prefix}{field.name}.")
            else:
                found[f"{prefix}{field.name}"] = inner

    walk(config, "")
    return found


# Fields that change nothing of what is learnt, or that the other fields leave without effect.
OPEN = {"log_every", "checkpoint_every", "keep_last", "device", "parallel", "threads", "seed", "data.seed"}
OPEN |= {"timeout_hours"}
OPEN |= {"data.mixture", "data.grow_steps", "data.open_share", "schedule.decay", "optimizer.muon_lr"}
OPEN |= {"optimizer.muon_momentum", "optimizer.muon_steps", "model.max_length", "objective.rates.fixed"}
OPEN |= {
    f"objective.rates.{name}" for name in ("beta_a", "beta_b", "adaptive_bins", "adaptive_floor", "adaptive_memory")
}


def check(config: TrainConfig, expected: dict[str, Any]) -> None:
    """Every field is in the table and is what the table says, but for the open ones."""
    found = flat(config)
    wrong = {name: (found.get(name), value) for name, value in expected.items() if found.get(name) != value}
    assert not wrong, f"field: (config, table) {wrong}"
    assert found.keys() - expected.keys() <= OPEN


def shape(kind: str, model: str) -> dict[str, Any]:
    width, heads, depth = MODELS[model]
    sizes = {"model.width": width, "model.heads": heads}
    if kind == "decoder-only":
        return sizes | {"model.depth": depth}
    return sizes | {"model.encoder_depth": depth // 2, "model.decoder_depth": depth // 2}


def published_table(family: str, size: int, objective: str, model: str, kind: str) -> dict[str, Any]:
    batch, epochs, decay, evaluation, mazes, ids = PUBLISHED[family, size, objective, model]
    steps_per_epoch = (mazes + batch - 1) // batch
    network = ENCODER_DECODER if objective == "mlm-u" else CAUSAL_ENCODER_DECODER
    if kind == "decoder-only":
        network = PUBLISHED_DECODER_ONLY | {"model.bos_id": size * size + 9}  # after the cells and nine words
    return (
        ALL_RUNS
        | shape(kind, model)
        | network
        | {
            "kind": kind,
            "model.vocabulary": ids,
            "batch_size": batch,
            "budget.epochs": epochs,
            "evaluate_every": evaluation * steps_per_epoch,
            "optimizer.weight_decay": decay,
            "schedule.cycle_beta1": True,
            "objective.name": objective,
            "data.family": family,
            "data.sizes": (size,),
            "data.format": FORMATS[family],
            "data.mazes": mazes,
            "data.folder": f"data/{family}-{size}-{mazes}" if mazes != 100_000 else "",
        }
    )


@pytest.mark.parametrize("run", PUBLISHED, ids=str)
def test_published_configs_are_those_of_the_table(run: tuple[Any, int, Any, Any]) -> None:
    kind = "decoder-only" if run[2] == "next-token" else "encoder-decoder"
    check(published(*run), published_table(*run, kind))


def test_the_page_has_the_same_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "paper-and-code.md").read_text()
    words = {"MLM-U": "mlm-u", "next token": "next-token", "DFS": "dfs", "A*": "astar"}
    row = r"\| (DFS|A\*) (\d+)x\d+, (MLM-U|next token) (\w+) \| ([\d,]+) \| ([\d,]+) \| (\d+) \| (\S+) \|"
    found = {
        (words[family], int(size), words[objective], model.lower()): (
            int(batch.replace(",", "")),
            int(epochs.replace(",", "")),
            float(decay),
            int(evaluation),
        )
        for family, size, objective, model, batch, epochs, evaluation, decay in re.findall(row, page)
    }
    assert found == {run: settings[:4] for run, settings in PUBLISHED.items()}


def test_the_published_causal_encoder_decoder_has_the_settings_of_the_decoder_only_model() -> None:
    config = published("dfs", 10, "next-token", architecture="encoder-decoder")
    check(config, published_table("dfs", 10, "next-token", "8m", "encoder-decoder"))


def paper_table(family: str, size: int, objective: str, model: str, kind: str, **changes: Any) -> dict[str, Any]:
    left_to_right = objective in ("next-token", "trace")
    network = CAUSAL_ENCODER_DECODER if left_to_right else ENCODER_DECODER
    form = "wall-list-trace" if objective == "trace" else FORMATS[family]
    base = (
        ALL_RUNS
        | shape(kind, model)
        | (PAPER_DECODER_ONLY if kind == "decoder-only" else network)
        | {
            "kind": kind,
            "model.vocabulary": DataConfig(family=family, sizes=(size,), format=form).vocabulary,  # type: ignore[arg-type]
            "batch_size": 128,
            "budget.epochs": 3000,
            "evaluate_every": 50 * 782,  # 782 batches of 128 have 100,000 mazes
            "optimizer.weight_decay": 1e-4 if left_to_right else 0.0,
            "schedule.cycle_beta1": False,
            "objective.name": objective,
            "data.family": family,
            "data.sizes": (size,),
            "data.format": form,
            "data.mazes": 100_000,
        }
        | changes
    )
    mazes = base["data.mazes"]
    return base | {"data.folder": "" if mazes == 100_000 else f"data/{family}-{size}-{mazes}"}


PAPER_RUNS = [
    *[
        (family, size, objective, "8m")
        for family in ("dfs", "astar")
        for size in PAPER_SIZES[family]
        for objective in ("mlm-u", "next-token")
    ],
    *[("dfs", 20, objective, model) for objective in ("mlm-u", "next-token") for model in ("3m", "25m")],
    *[("astar", 10, objective, "8m") for objective in ("ordered", "ordered-reverse")],
    *[("astar", size, objective, "25m") for size in PAPER_SIZES["astar"] for objective in ("next-token", "trace")],
]


@pytest.mark.parametrize("run", PAPER_RUNS, ids=str)
def test_configs_of_the_papers_text_are_those_of_the_table(run: tuple[Any, int, Any, Any]) -> None:
    kind = "decoder-only" if run[2] in ("next-token", "trace") else "encoder-decoder"
    check(paper(*run), paper_table(*run, kind))


@pytest.mark.parametrize("objective", ["mlm-u", "next-token"])
@pytest.mark.parametrize(("keywords", "fields"), PAPER_CHANGES, ids=str)
def test_keywords_of_paper_change_their_fields_alone(
    objective: Any, keywords: dict[str, Any], fields: dict[str, Any]
) -> None:
    kind = "decoder-only" if objective == "next-token" else "encoder-decoder"
    check(paper("dfs", 10, objective, **keywords), paper_table("dfs", 10, objective, "8m", kind, **fields))


def test_the_causal_encoder_decoder_of_the_text() -> None:
    config = paper("dfs", 10, "next-token", architecture="encoder-decoder")
    check(config, paper_table("dfs", 10, "next-token", "8m", "encoder-decoder"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("paper-dfs-10-mlmu-8m", paper("dfs", 10, "mlm-u")),
        ("paper-dfs-12-next-25m", paper("dfs", 12, "next-token", "25m")),
        ("paper-dfs-10-next-encdec-8m", paper("dfs", 10, "next-token", architecture="encoder-decoder")),
        ("paper-astar-10-ordered-8m", paper("astar", 10, "ordered")),
        ("paper-astar-10-ordered-reverse-8m", paper("astar", 10, "ordered-reverse")),
        ("paper-astar-20-trace-25m", paper("astar", 20, "trace", "25m")),
        ("published-astar-20-mlmu-3m", published("astar", 20, "mlm-u", "3m")),
        ("published-dfs-10-next-encdec-8m", published("dfs", 10, "next-token", architecture="encoder-decoder")),
    ],
)
def test_a_name_is_the_run_that_it_says(name: str, expected: TrainConfig) -> None:
    assert config_named(name) == expected


@pytest.mark.parametrize(
    "run",
    [
        ("dfs", 15, "mlm-u", "8m"),
        ("dfs", 20, "mlm-u", "8m"),
        ("dfs", 15, "next-token", "8m"),
        ("dfs", 20, "next-token", "8m"),
        ("dfs", 30, "next-token", "8m"),
        ("dfs", 20, "mlm-u", "25m"),
        ("astar", 10, "next-token", "8m"),
        ("astar", 10, "ordered-reverse", "8m"),
    ],
    ids=str,
)
def test_a_run_that_was_not_published_is_refused_in_one_sentence(run: tuple[Any, int, Any, Any]) -> None:
    with pytest.raises(UserError, match="the published code has no settings for") as caught:
        published(*run)
    assert str(caught.value).count(". ") == 0
    # 3 tokens for each of the passages of a perfect maze: 2,048 positions hold 20x20 and not 30x30.
    too_long = run[2] == "next-token" and run[0] == "dfs" and 3 * (run[1] ** 2 - 1) > 2048
    assert ("2,048 positions" in str(caught.value)) == too_long == (run == ("dfs", 30, "next-token", "8m"))


def test_a_name_that_was_not_published_is_refused_in_one_sentence() -> None:
    with pytest.raises(UserError, match="no settings for DFS 15x15 mazes with mlm-u and 8M parameters"):
        config_named("published-dfs-15-mlmu-8m")


def test_parameter_counts() -> None:
    """The encoder-decoders' are those of the published networks; 2,048 positions of 128 numbers come to GPT-2's."""

    def count(name: str) -> int:
        with torch.device("meta"):
            return count_parameters(build_model(config_named(name).model, 0))

    assert count("published-dfs-10-mlmu-3m") == 2_792_960
    assert count("published-dfs-10-mlmu-8m") == count("paper-dfs-10-mlmu-8m") == 7_948_032
    assert count("published-astar-30-mlmu-25m") == 25_306_496 + (1024 - 128) * (256 + 1)
    assert count("published-dfs-10-next-8m") == 7_947_648 - 128 + 2048 * 128


def test_bos_is_the_token_of_that_name() -> None:
    for size in (5, 10):
        config = published("dfs", size, "next-token")
        vocabulary = format_named("edge-list").vocabulary(size, size)
        assert vocabulary.tokens[config.model.bos_id] == "[BOS]"  # type: ignore[attr-defined]


def test_a_published_run_takes_other_mazes() -> None:
    """The vocabulary and [BOS] follow the mazes, and without other mazes the published number of ids stays."""
    changed = change_config(published("dfs", 10, "next-token"), {"size": 5})
    assert changed.model.bos_id == published("dfs", 5, "next-token").model.bos_id  # type: ignore[attr-defined]
    same = change_config(published("astar", 20, "mlm-u"), {"lr": 3e-4})
    assert same.model.vocabulary == 512  # type: ignore[attr-defined]


def test_paper_and_published_differ_where_text_and_code_do() -> None:
    """docs/paper-and-code.md explains these, and no others."""
    ours, theirs = flat(paper("dfs", 10, "mlm-u")), flat(published("dfs", 10, "mlm-u"))
    assert {name for name in ours if ours[name] != theirs[name]} - OPEN == {
        "budget.epochs",
        "data.mazes",
        "data.folder",
        "evaluate_every",
        "optimizer.weight_decay",
        "schedule.cycle_beta1",
    }
