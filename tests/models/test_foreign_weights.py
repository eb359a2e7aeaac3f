"""Checkpoints that the published code would write go in and give the same numbers; no code in a file is run."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import zipfile
from collections import OrderedDict, defaultdict
from pathlib import Path
from types import ModuleType

import pytest
import torch
from published_reference import (
    causal_mask,
    random_encoder_decoder,
    random_gpt2,
    run_encoder_decoder,
    run_gpt2,
)
from safetensors.torch import load_file, save_file

from clew import load
from clew.cli import run
from clew.data.batch import TokenBatch
from clew.errors import UserError
from clew.models.published import load_published, read_weights
from clew.tokenization.format import format_named
from clew.training.checkpoint import load_model

GOLDEN = Path(__file__).parents[1] / "golden" / "mlmu-tiny.safetensors"
HEADS = 4
DFS_TEXT = (
    "<ADJLIST_START> (0,0) (0,1) ; (1,1) (0,1) ; (1,1) (1,0) ; <ADJLIST_END> <ORIGIN_START> (0,0) <ORIGIN_END> "
    "<TARGET_START> (1,0) <TARGET_END> <PATH_START> (0,0) (0,1) (1,1) (1,0) <PATH_END>"
)
ASTAR_TEXT = "bos start 0 1 goal 2 0 wall 1 1 wall 3 3 eos <PATH_START> bos plan 0 1 plan 0 0 plan 1 0 plan 2 0 eos"


def lightning(weights, **hyper_parameters):
    """A checkpoint as Lightning writes it: the tensors under `model.`, and much beside them."""
    state = OrderedDict((f"model.{name}", tensor) for name, tensor in weights.items())
    moments = {number: {"step": torch.tensor(5.0), "exp_avg": tensor} for number, tensor in enumerate(weights.values())}
    return {
        "epoch": 3,
        "global_step": 12,
        "pytorch-lightning_version": "2.4.0",
        "state_dict": state,
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 3}}}},
        "callbacks": {"ModelCheckpoint": {"best_model_score": torch.tensor(0.1), "best_model_path": "x"}},
        "optimizer_states": [{"state": moments, "param_groups": [{"lr": 0.001, "betas": (0.9, 0.999)}]}],
        "lr_schedulers": [{"total_steps": 12, "_schedule_phases": [{"end_step": 3.0}]}],
        "MixedPrecision": {"scale": 65536.0},
        "hparams_name": "kwargs",
        "hyper_parameters": dict(hyper_parameters),
    }


def batch_of(ids):
    """One maze, response after <PATH_START>, case from left to right."""
    tokens_BT = torch.tensor([ids])
    return tokens_BT, torch.ones_like(tokens_BT).bool()


def answers(model, ids, first, left_to_right):
    """Our logits for the response from `first` on: all hidden at once, or each from those before it."""
    tokens_BT, valid_BT = batch_of(ids)
    response_BT = (torch.arange(len(ids)) >= first)[None]
    order_BT = response_BT.long().cumsum(1) if left_to_right else response_BT.long()
    with torch.no_grad():
        return model(TokenBatch(tokens_BT, valid_BT, response_BT, torch.arange(1)), order_BT, response_BT)


def converted(path, out, *options):
    assert run(["convert", str(path), "--out", str(out), *options]) == 0
    return load_model(out)


@pytest.mark.parametrize("kind", ["lightning", "state dict", "old format", "safetensors"])
def test_an_encoder_decoder_goes_in_and_gives_the_same_logits(tmp_path, kind):
    weights = random_encoder_decoder(128, 16, 2, 2, seed=0)
    path = tmp_path / "last.ckpt"
    if kind == "lightning":
        torch.save(lightning(weights, n_head=HEADS, train_mode="absorbing"), path)
    elif kind == "safetensors":
        path = tmp_path / "last.safetensors"
        save_file({name: tensor.clone() for name, tensor in weights.items()}, path)
    else:
        torch.save(weights, path, _use_new_zipfile_serialization=kind == "state dict")
    model, config = converted(path, tmp_path / "run", "--size", "2")
    assert (config.objective.name, config.model.heads, config.model.causal) == ("mlm-u", HEADS, False)
    ids = format_named("edge-list").vocabulary(2, 2).encode(DFS_TEXT.split()).tolist()
    first = DFS_TEXT.split().index("<PATH_START>") + 1
    visible_TT = torch.arange(len(ids)) < first
    expected = run_encoder_decoder(weights, batch_of(ids)[0], HEADS, visible_TT)[0, first:]
    torch.testing.assert_close(answers(model, ids, first, False), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("told_by", ["checkpoint", "option"])
def test_a_left_to_right_encoder_decoder_goes_in_with_its_mask(tmp_path, told_by):
    weights = random_encoder_decoder(128, 16, 2, 2, seed=0)
    by_checkpoint = told_by == "checkpoint"
    torch.save(lightning(weights, **({"train_mode": "ar"} if by_checkpoint else {})), tmp_path / "last.ckpt")
    options = [] if by_checkpoint else ["--objective", "next-token"]
    model, config = converted(tmp_path / "last.ckpt", tmp_path / "run", "--size", "2", *options)
    assert (config.objective.name, config.model.causal, config.model.attend_self) == ("next-token", True, False)
    ids = format_named("edge-list").vocabulary(2, 2).encode(DFS_TEXT.split()).tolist()
    first = DFS_TEXT.split().index("<PATH_START>") + 1
    expected = run_encoder_decoder(weights, batch_of(ids)[0], HEADS, causal_mask(len(ids)))[0, first:]
    torch.testing.assert_close(answers(model, ids, first, True), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("prefix", ["", "model.", "module.model.", "model._orig_mod."])
def test_gpt2_goes_in_and_gives_the_same_logits(tmp_path, prefix):
    weights = random_gpt2(128, 16, depth=2, positions=64, seed=0)
    # Older versions of transformers save the mask too.
    extra = {
        "transformer.h.0.attn.bias": torch.ones(1, 1, 64, 64).tril(),
        "transformer.h.0.attn.masked_bias": torch.ones(1),
    }
    torch.save({prefix + name: tensor for name, tensor in (weights | extra).items()}, tmp_path / "last.ckpt")
    model, config = converted(tmp_path / "last.ckpt", tmp_path / "run", "--size", "2")
    assert (config.objective.name, config.model.max_length) == ("next-token", 64)
    vocabulary = format_named("edge-list").vocabulary(2, 2)
    ids = vocabulary.encode(DFS_TEXT.split()).tolist()
    first = DFS_TEXT.split().index("<PATH_START>") + 1
    shifted, _ = batch_of([vocabulary.id_of["[BOS]"], *ids[:-1]])
    torch.testing.assert_close(
        answers(model, ids, first, True), run_gpt2(weights, shifted, HEADS)[0, first:], atol=2e-5, rtol=1e-5
    )


def published_astar_tokens(side):
    words = [*map(str, range(side)), *(f"c{n}" for n in range(side * side))]
    return ["pad", "bos", "eos", "<PATH_START>", *sorted([*words, "start", "goal", "wall", "create", "close", "plan"])]


@pytest.mark.parametrize(("side", "count"), [(4, 128), (10, 128), (20, 512), (30, 1024)])
def test_astar_ids_are_permuted_to_ours(tmp_path, side, count):
    tokens = published_astar_tokens(side)
    theirs = {token: number for number, token in enumerate(tokens)}
    weights = random_encoder_decoder(count, 16, 1, 1, seed=0)
    torch.save(lightning(weights, n_head=HEADS), tmp_path / "last.ckpt")
    model, config = converted(tmp_path / "last.ckpt", tmp_path / "run", "--size", str(side), "--family", "astar")
    assert (config.data.format, config.model.vocabulary) == ("wall-list", count)
    words = ASTAR_TEXT.split()
    vocabulary = format_named("wall-list").vocabulary(side, side)
    first = words.index("<PATH_START>") + 1
    visible_T = torch.arange(len(words)) < first
    expected = run_encoder_decoder(weights, torch.tensor([[theirs[word] for word in words]]), HEADS, visible_T)[
        0, first:
    ]
    found = answers(model, vocabulary.encode(words).tolist(), first, False)
    for token in {*words, *map(str, range(side))}:
        ours = found[:, vocabulary.id_of[token]]
        torch.testing.assert_close(ours, expected[:, theirs[token]], atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(found.sort(1).values, expected.sort(1).values, atol=2e-5, rtol=1e-5)


def test_a_model_with_more_ids_than_its_text_has_solves(tmp_path):
    torch.save(lightning(random_encoder_decoder(512, 16, 1, 1, seed=0)), tmp_path / "last.ckpt")
    converted(tmp_path / "last.ckpt", tmp_path / "run", "--size", "20", "--family", "astar")
    task = "start 0 1 goal 2 0 wall 1 1"
    assert load(tmp_path / "run").solve(task).passes > 0


def test_a_vocabulary_beside_the_weights_decides_the_order(tmp_path):
    weights = random_encoder_decoder(128, 16, 1, 1, seed=0)
    torch.save(weights, tmp_path / "a.pt")
    ours = list(format_named("wall-list").vocabulary(4, 4).tokens)
    (tmp_path / "a.json").write_text(json.dumps({"grid": 4, "vocab": ours}))
    model, _ = converted(tmp_path / "a.pt", tmp_path / "run", "--family", "astar")
    assert torch.equal(model.embedding.weight, weights["wte.weight"])


# What is refused


class Bomb:
    """An object whose pickle calls a function; none of the tests may let it."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def refused(path, out, capsys, *options):
    """One sentence, exit code 1, and nothing made."""
    assert run(["convert", str(path), "--out", str(out), "--size", "2", *options]) == 1
    error = capsys.readouterr().err
    assert error.startswith("clew: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    assert not out.exists()
    return error


@pytest.mark.parametrize("where", ["state_dict", "hyper_parameters", "callbacks", "alone", "old format", "bare pickle"])
@pytest.mark.parametrize("function", ["os.system", "pathlib", "eval"])
def test_a_checkpoint_that_holds_code_is_refused_and_not_run(tmp_path, capsys, where, function):
    mark = tmp_path / "went off"
    bombs = {
        "os.system": Bomb(os.system, f"touch '{mark}'"),
        "pathlib": Bomb(Path.touch, mark),
        "eval": Bomb(eval, f"open({str(mark)!r}, 'w')"),
    }
    bomb = bombs[function]
    path = tmp_path / "last.ckpt"
    checkpoint = lightning(random_encoder_decoder(128, 16, 1, 1, seed=0))
    if where == "bare pickle":
        path.write_bytes(pickle.dumps({"state_dict": bomb}))
    elif where == "alone":
        torch.save(bomb, path)
    else:
        checkpoint["hyper_parameters" if where == "old format" else where]["x"] = bomb
        torch.save(checkpoint, path, _use_new_zipfile_serialization=where != "old format")
    error = refused(path, tmp_path / "run", capsys)
    assert "could run code" in error or where == "bare pickle"
    assert not mark.exists()
    pickle.loads(pickle.dumps(bomb))  # the bomb is a real one
    assert mark.exists()


def test_settings_of_the_published_code_are_replaced_and_never_imported(tmp_path, monkeypatch):
    """OmegaConf objects and the tokenizer stand in published checkpoints; here without either package."""
    made = {}
    for module, name in (("omegaconf.dictconfig", "DictConfig"), ("omegaconf.base", "ContainerMetadata")):
        made[name] = type(name, (), {"__module__": module, "__qualname__": name})
    made["BasicTokenizer"] = type("BasicTokenizer", (), {"__module__": "recipe.tokenizer"})
    for kind in made.values():
        module = sys.modules.get(kind.__module__) or ModuleType(kind.__module__)
        setattr(module, kind.__name__, kind)
        parent = kind.__module__.partition(".")[0]
        monkeypatch.setitem(sys.modules, parent, sys.modules.get(parent) or ModuleType(parent))
        monkeypatch.setitem(sys.modules, kind.__module__, module)
    optim, tokenizer = made["DictConfig"](), made["BasicTokenizer"]()
    optim.__dict__ = {
        "_metadata": made["ContainerMetadata"](),
        "_content": {"lr": 1e-3},
        "flags": defaultdict(dict, a={}),
    }
    optim._metadata.__dict__ = {"key_type": int, "object_type": dict}
    tokenizer.__dict__ = {"s_to_i": {"(0,0)": 0}}
    weights = random_encoder_decoder(128, 16, 1, 1, seed=0)
    checkpoint = lightning(weights, config_optim=optim, tokenizer=tokenizer, n_head=2)
    torch.save(checkpoint, tmp_path / "last.ckpt")
    monkeypatch.undo()
    model, _ = converted(tmp_path / "last.ckpt", tmp_path / "run", "--size", "2")
    assert model.config.heads == 2
    assert not {"omegaconf", "recipe", "omegaconf.dictconfig"} & set(sys.modules)
    with pytest.raises(pickle.UnpicklingError):  # without placeholders torch refuses it
        torch.load(tmp_path / "last.ckpt", weights_only=True)


@pytest.mark.parametrize("old_format", [False, True])
def test_a_cut_off_checkpoint_is_refused(tmp_path, capsys, old_format):
    buffer = io.BytesIO()
    weights = random_encoder_decoder(128, 16, 1, 1, seed=0)
    torch.save(lightning(weights), buffer, _use_new_zipfile_serialization=not old_format)
    whole = buffer.getvalue()
    path = tmp_path / "last.ckpt"
    for length in (0, 1, 2, 10, 100, len(whole) // 3, len(whole) // 2, len(whole) - 1000, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "cut off" in refused(path, tmp_path / "run", capsys)


def test_other_files_are_refused(tmp_path, capsys):
    path = tmp_path / "last.ckpt"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("letter.txt", "dear")
    assert "cannot be read as a PyTorch checkpoint" in refused(path, tmp_path / "run", capsys)
    for value in ([1, 2], {"epoch": 3}, {"state_dict": {}}, {"state_dict": [torch.zeros(2)]}, torch.zeros(3)):
        torch.save(value, path)
        assert "holds no state dict" in refused(path, tmp_path / "run", capsys)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, ["--family", "astar", "--size", "20"], "have 128 ids, but published models of 20x20 astar mazes have 512"),
        ({}, ["--size", "15"], "have 128 ids, but published models of 15x15 dfs mazes have 256"),
        ({"wte.weight": torch.zeros(128, 16)}, [], "wte.weight and lm_head.weight differ"),
        ({"wte.weight": torch.zeros(64, 16)}, [], "wte.weight and lm_head.weight differ"),
        ({"lm_head.bias": torch.zeros(64)}, [], "'lm_head.bias' of shape"),
        ({"enc.ln_f.bias": torch.zeros(16).to_sparse()}, [], "'enc.ln_f.bias' that are not finite"),
        ({"enc.ln_f.bias": torch.zeros(16, device="meta")}, [], "'enc.ln_f.bias' that are not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, capsys, change, options, message):
    path = tmp_path / "last.ckpt"
    torch.save(random_encoder_decoder(128, 16, 1, 1, seed=0) | change, path)
    assert message in refused(path, tmp_path / "run", capsys, *options)


@pytest.mark.parametrize(
    ("vocab", "message"),
    [
        (lambda tokens: tokens[:-1], "lacks 'wall'"),
        (lambda tokens: [*tokens, "10"], "has '10'"),
        (lambda tokens: [*tokens, "pad"], "a token twice"),
        (lambda tokens: [*tokens, *(f"c{n}" for n in range(900, 999))], "128 ids, too few for a vocabulary of 129"),
    ],
)
def test_a_vocabulary_that_cannot_be_mapped_is_refused(tmp_path, capsys, vocab, message):
    torch.save(random_encoder_decoder(128, 16, 1, 1, seed=0), tmp_path / "a.pt")
    (tmp_path / "a.json").write_text(json.dumps({"vocab": vocab(published_astar_tokens(4))}))
    error = refused(tmp_path / "a.pt", tmp_path / "run", capsys, "--size", "4", "--family", "astar")
    assert message in error


def test_what_a_lightning_checkpoint_says_of_another_network_is_refused(tmp_path, capsys):
    path = tmp_path / "last.ckpt"
    weights = random_encoder_decoder(128, 16, 1, 1, seed=0)
    for made in ({"attn_sink": True}, {"stack_enc_dec": False}):
        torch.save(lightning(weights, **made), path)
        assert "our models do not have" in refused(path, tmp_path / "run", capsys)
    torch.save(lightning(random_gpt2(128, 16, 1, 32, seed=0), activation_function="gelu_new"), path)
    assert "activation cannot be 'gelu_new'" in refused(path, tmp_path / "run", capsys)
    torch.save(lightning(random_gpt2(128, 16, 1, 32, seed=0)), path)
    for options in (["--family", "astar", "--size", "4"], ["--objective", "mlm-u"]):
        assert "GPT-2 reads dfs mazes" in refused(path, tmp_path / "run", capsys, *options)


def test_a_small_file_cannot_ask_for_a_giant(tmp_path, capsys):
    """Tensors of one number can claim any shape by strides of zero."""
    path = tmp_path / "last.ckpt"
    torch.save({"wte.weight": torch.zeros(()).expand(10**9, 10**9), "lm_head.weight": torch.ones(())}, path)
    assert "smaller than the tensors that it names" in refused(path, tmp_path / "run", capsys)
    width = 400  # each tensor is smaller than the file, but not all of them
    shapes = {name: tensor.shape for name, tensor in random_encoder_decoder(128, 16, 1, 1, seed=0).items()}
    giant = {
        n: torch.zeros(()).expand([s if s == 1 else s // 16 * width for s in shape]) for n, shape in shapes.items()
    }
    giant["lm_head.weight"] = torch.zeros(()).expand(128, width)
    del giant["wte.weight"]
    torch.save({"state_dict": giant, "beside": torch.zeros(800_000)}, path)
    assert "smaller than the tensors that it names" in refused(path, tmp_path / "run", capsys)


def test_the_optimizer_of_a_large_checkpoint_stays_on_the_disk(tmp_path, monkeypatch):
    weights = random_encoder_decoder(128, 16, 1, 1, seed=0)
    checkpoint = lightning(weights)
    checkpoint["optimizer_states"] = [torch.zeros(50_000_000)]
    torch.save(checkpoint, tmp_path / "last.ckpt")
    kept, torch_load = [], torch.load  # all that was loaded, so that it is still there when memory is measured
    monkeypatch.setattr(torch, "load", lambda *args, **options: kept.append(torch_load(*args, **options)) or kept[-1])
    before = resident()
    model = load_published(tmp_path / "last.ckpt", heads=HEADS)
    assert resident() - before < 100_000_000
    assert len(kept[0]["optimizer_states"][0]) == 50_000_000
    assert torch.equal(model.embedding.weight, weights["wte.weight"])


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_golden_weights_as_a_checkpoint_give_the_golden_numbers(tmp_path):
    golden = load_file(GOLDEN)
    torch.save({"state_dict": golden}, tmp_path / "mlmu-tiny.ckpt")
    (tmp_path / "mlmu-tiny.json").write_text(GOLDEN.with_suffix(".json").read_text())
    model, _ = converted(tmp_path / "mlmu-tiny.ckpt", tmp_path / "run")
    valid, hidden = golden["attention_mask"].bool(), golden["hidden"].bool()
    batch = TokenBatch(golden["input_ids"], valid, golden["path_mask"].bool(), torch.arange(len(valid)))
    with torch.no_grad():
        logits = model(batch, torch.where(valid, hidden.long(), -1), hidden)
    torch.testing.assert_close(logits, golden["logits"][hidden], atol=1e-5, rtol=0)


def test_there_must_be_a_file(tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        read_weights(tmp_path / "last.ckpt")
