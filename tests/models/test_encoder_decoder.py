from itertools import pairwise
from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from model_cases import VOCABULARY, any_order, encoder_decoder, hide, left_to_right, make_batch

from clew.models.blocks import run_in_groups, use_packed_attention

rows, prompts, paths, seeds = st.integers(1, 4), st.integers(1, 7), st.integers(1, 6), st.integers(0, 9999)
targets = st.builds(
    lambda batch, kind, rate, seed: {
        "hide": lambda: hide(batch, rate, seed),
        "left to right": lambda: left_to_right(batch),
        "any order": lambda: any_order(batch, seed),
    }[kind](),
    st.builds(make_batch, rows, prompts, paths, seeds),
    st.sampled_from(["hide", "left to right", "any order"]),
    st.floats(0, 1),
    seeds,
)


def logits(model, case, naive=False, group_tokens=4096, packed=True):
    model.naive = naive
    use = use_packed_attention if packed else lambda *_: False
    groups = patch("clew.models.blocks.GROUP_TOKENS", group_tokens)
    with torch.no_grad(), groups, patch("clew.models.transformers.use_packed_attention", use):
        return model(case.batch, case.order_BT, case.query_BT)


@given(
    targets,
    st.booleans(),
    st.sampled_from(["rope-fp32", "rope-fp16", "learned", "none"]),
    st.sampled_from([4, 99]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_fast_and_naive_forms_give_the_same_numbers(case, causal, positions, group_tokens, packed):
    model = encoder_decoder(causal=causal, positions=positions)
    fast, naive = logits(model, case, group_tokens=group_tokens, packed=packed), logits(model, case, naive=True)
    assert fast.shape == (int(case.query_BT.sum()), VOCABULARY)
    # Half rounding may tip a value to its neighbour when sums are taken in another order.
    tolerance = 2e-2 if positions == "rope-fp16" else 1e-5
    torch.testing.assert_close(fast, naive, atol=tolerance, rtol=tolerance)


@given(targets, st.booleans(), st.booleans(), seeds)
@settings(max_examples=40, deadline=None)
def test_nothing_leaks_from_what_a_query_may_not_see(case, causal, naive, seed):
    assume(case.query_BT.any())
    model = encoder_decoder(causal=causal)
    generator = torch.Generator().manual_seed(seed)
    number = int(torch.randint(int(case.query_BT.sum()), (1,), generator=generator))
    row, position = case.query_BT.nonzero()[number].tolist()
    order_T = case.order_BT[row]
    visible_T = (order_T >= 0) & (order_T < order_T[position])
    other_BT = torch.randint(VOCABULARY, case.order_BT.shape, generator=generator)
    other_BT[row] = torch.where(visible_T, case.batch.tokens_BT[row], other_BT[row])
    other = logits(model, case.with_tokens(other_BT), naive)[number]
    torch.testing.assert_close(other, logits(model, case, naive)[number], atol=1e-6, rtol=0)


@pytest.mark.parametrize("naive", [False, True])
def test_every_visible_token_and_its_place_matters(naive):
    model = encoder_decoder()
    case = hide(make_batch(1, 6, 6, seed=1), 0.5, seed=0)
    assert case.query_BT.sum() >= 2
    answer = logits(model, case, naive)
    for position in (case.order_BT[0] == 0).nonzero().flatten().tolist():
        tokens = case.batch.tokens_BT.clone()
        tokens[0, position] = (tokens[0, position] + 1) % VOCABULARY
        assert (logits(model, case.with_tokens(tokens), naive) - answer).abs().amax(1).min() > 1e-4
    # Two targets about the same visible tokens differ by their position alone.
    assert (answer[0] - answer[1]).abs().max() > 1e-3


def test_padding_may_hold_any_number():
    model = encoder_decoder()
    case = hide(make_batch(4, 5, 5, seed=0), 0.7, seed=0)
    assert not case.batch.valid_BT.all()
    strange = case.batch.tokens_BT.masked_fill(~case.batch.valid_BT, -100)
    for naive in (False, True):
        assert torch.equal(logits(model, case.with_tokens(strange), naive), logits(model, case, naive))


def test_a_causal_model_answers_step_by_step_as_it_does_all_at_once():
    model = encoder_decoder(causal=True)
    batch = make_batch(1, 5, 6, seed=2)
    at_once = logits(model, left_to_right(batch))
    for number, position in enumerate(batch.response_BT[0].nonzero().flatten().tolist()):
        order_BT = (torch.arange(batch.tokens_BT.shape[1]) >= position).long()[None]
        query_BT = torch.zeros_like(batch.valid_BT)
        query_BT[0, position] = True
        with torch.no_grad():
            step = model(batch, order_BT, query_BT)
        torch.testing.assert_close(step[0], at_once[number], atol=1e-5, rtol=1e-5)


def test_the_causal_mask_is_the_whole_difference_between_the_two_baselines():
    case = hide(make_batch(2, 6, 4, seed=1), 0.5, seed=0)
    assert not torch.allclose(logits(encoder_decoder(causal=True), case), logits(encoder_decoder(), case), atol=1e-3)
    assert encoder_decoder(causal=True).state_dict().keys() == encoder_decoder().state_dict().keys()


@pytest.mark.parametrize("naive", [False, True])
def test_a_batch_without_questions_gives_every_weight_a_zero_gradient(naive):
    model = encoder_decoder()
    model.naive = naive
    case = hide(make_batch(3, 5, 5, seed=0), 0.0, seed=0)
    answer = model(case.batch, case.order_BT, case.query_BT)
    assert answer.shape == (0, VOCABULARY)
    answer.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.equal(parameter.grad, torch.zeros_like(parameter)), name


def test_both_forms_give_the_same_gradient():
    gradients = []
    for naive in (False, True):
        model = encoder_decoder()
        model.naive = naive
        case = hide(make_batch(4, 6, 6, seed=0), 0.5, seed=0)
        model(case.batch, case.order_BT, case.query_BT).square().mean().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    assert all(gradient.abs().max() > 0 for gradient in gradients[0].values())
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-5, rtol=1e-4)


def test_groups_hold_every_maze_once_and_similar_ones_together():
    case = hide(make_batch(30, 7, 6, seed=0), 0.5, seed=0)
    length_B = (case.order_BT == 0).sum(1)
    groups = []

    def run(batch, order_BT, query_BT):
        groups.append(batch.index_B)
        return batch.tokens_BT[query_BT][:, None]

    for group_tokens, expected in ((20, range(4, 31)), (4096, [1])):
        groups.clear()
        with patch("clew.models.blocks.GROUP_TOKENS", group_tokens):
            logits_Q1 = run_in_groups(run, length_B, case.batch, case.order_BT, case.query_BT)
        assert torch.equal(logits_Q1[:, 0], case.batch.tokens_BT[case.query_BT])
        assert len(groups) in expected
        assert sorted(torch.cat(groups).tolist()) == list(range(30))
        lengths = [length_B[rows] for rows in groups]
        assert all(one.max() <= next_one.min() for one, next_one in pairwise(lengths))


def test_half_precision_positions_change_the_answer():
    case = hide(make_batch(2, 6, 6, seed=0), 0.5, seed=0)
    full, half = (logits(encoder_decoder(positions=choice), case) for choice in ("rope-fp32", "rope-fp16"))
    assert 1e-6 < (full - half).abs().max() < 0.5


def test_training_and_evaluation_mode_give_the_same_numbers():
    model = encoder_decoder()
    case = hide(make_batch(2, 6, 6, seed=0), 0.5, seed=0)
    assert torch.equal(logits(model.train(), case), logits(model.eval(), case))


def test_runs_under_autocast():
    model = encoder_decoder()
    case = hide(make_batch(2, 6, 6, seed=0), 0.5, seed=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = logits(model, case)
    assert rough.dtype == torch.bfloat16
    torch.testing.assert_close(rough.float(), logits(model, case), atol=0.3, rtol=0.1)
