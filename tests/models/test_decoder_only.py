from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import VOCABULARY, any_order, decoder_only, hide, left_to_right, make_batch

from clew.errors import UserError
from clew.models.blocks import use_packed_attention
from clew.models.transformers import check_left_to_right

batches = st.builds(make_batch, st.integers(1, 4), st.integers(1, 7), st.integers(1, 6), st.integers(0, 9999))


def logits(model, case, naive=False, group_tokens=4096, packed=True):
    model.naive = naive
    use = use_packed_attention if packed else lambda *_: False
    groups = patch("clew.models.blocks.GROUP_TOKENS", group_tokens)
    with torch.no_grad(), groups, patch("clew.models.transformers.use_packed_attention", use):
        return model(case.batch, case.order_BT, case.query_BT)


@given(batches, st.sampled_from(["rope-fp32", "learned", "none"]), st.sampled_from([4, 99]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_fast_and_naive_forms_give_the_same_numbers(batch, positions, group_tokens, packed):
    model, case = decoder_only(positions=positions), left_to_right(batch)
    fast = logits(model, case, group_tokens=group_tokens, packed=packed)
    assert fast.shape == (int(case.query_BT.sum()), VOCABULARY)
    torch.testing.assert_close(fast, logits(model, case, naive=True), atol=1e-5, rtol=1e-5)


@given(batches, st.booleans(), st.integers(0, 9999))
@settings(max_examples=20, deadline=None)
def test_a_token_is_predicted_from_the_tokens_before_it_and_from_all_of_them(batch, naive, seed):
    model, case = decoder_only(), left_to_right(batch)
    generator = torch.Generator().manual_seed(seed)
    answer = logits(model, case, naive)
    number = int(torch.randint(len(answer), (1,), generator=generator))
    row, position = case.query_BT.nonzero()[number].tolist()
    other_BT = torch.randint(VOCABULARY, case.order_BT.shape, generator=generator)
    other_BT[row, :position] = batch.tokens_BT[row, :position]
    unseen_changed = logits(model, case.with_tokens(other_BT), naive)[number]
    torch.testing.assert_close(unseen_changed, answer[number], atol=1e-6, rtol=0)
    for earlier in range(position):
        other_BT[row, :position] = batch.tokens_BT[row, :position]
        other_BT[row, earlier] = (other_BT[row, earlier] + 1) % VOCABULARY
        assert (logits(model, case.with_tokens(other_BT), naive)[number] - answer[number]).abs().max() > 1e-4


def test_other_orders_are_refused():
    batch = make_batch(4, 5, 6, seed=0)
    model = decoder_only()
    for case in (hide(batch, 0.5, seed=0), any_order(batch, seed=1)):
        with pytest.raises(UserError, match="left to right"):
            logits(model, case)
    with pytest.raises(UserError, match="left to right"):  # nothing stands before the first token
        check_left_to_right(torch.tensor([[1, 2]]), torch.tensor([[True, True]]))


def test_one_step_of_decoding_is_left_to_right():
    # The prefix is visible, all behind it hidden, and only the next token queried.
    check_left_to_right(torch.tensor([[0, 0, 1, 1, -1]]), torch.tensor([[False, False, True, False, False]]))


def test_the_cache_gives_the_same_numbers_as_one_pass():
    model = decoder_only()
    batch = make_batch(4, 7, 6, seed=5)
    prompt_BT = batch.valid_BT & ~batch.response_BT
    assert len(set(prompt_BT.sum(1).tolist())) > 1
    expected = logits(model, left_to_right(batch))
    lengths, first_B = int(prompt_BT.sum(1).max()), prompt_BT.sum(1)
    got_BSV = []
    with torch.no_grad():
        cache = model.new_cache()
        place_BT = torch.arange(batch.tokens_BT.shape[1]).expand_as(batch.tokens_BT)
        # The prompts at once, padded; then the response, one token a maze and step.
        real_BS = prompt_BT[:, :lengths]
        x_BSD = model.extend(cache, batch.tokens_BT[:, :lengths], place_BT[:, :lengths], real_BS)
        x_BD = x_BSD[torch.arange(len(batch)), first_B - 1]
        for step in range(int(batch.response_BT.sum(1).max())):
            got_BSV.append(model.head(x_BD))
            place_B1 = (first_B + step)[:, None].clamp(max=batch.tokens_BT.shape[1] - 1)
            token_B1 = batch.tokens_BT.gather(1, place_B1)
            x_BD = model.extend(cache, token_B1, place_B1)[:, 0]
    answer = torch.stack(got_BSV, dim=1)
    rows = [answer[row, : int(batch.response_BT[row].sum())] for row in range(len(batch))]
    torch.testing.assert_close(torch.cat(rows), expected, atol=1e-5, rtol=1e-5)


def test_reading_the_prompts_needs_no_attention_mask(monkeypatch):
    masks = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def note(query, key, value, attn_mask=None, is_causal=False):
        masks.append(None if attn_mask is None else tuple(attn_mask.shape))
        return attend(query, key, value, attn_mask=attn_mask, is_causal=is_causal)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", note)
    model, batch = decoder_only(), make_batch(4, 7, 6, seed=5)
    place_BT = torch.arange(batch.tokens_BT.shape[1]).expand_as(batch.tokens_BT)
    for real_BT, mask in ((batch.valid_BT, (4, 1, 1, place_BT.shape[1] + 1)), (torch.ones_like(batch.valid_BT), None)):
        masks.clear()
        with torch.no_grad():
            cache = model.new_cache()
            model.extend(cache, batch.tokens_BT, place_BT, real_BT)
            assert set(masks) == {None}
            model.extend(cache, batch.tokens_BT[:, :1], place_BT[:, -1:] + 1)
        assert masks[-1] == mask  # a row for each maze, and none where nothing is padded


def test_a_batch_without_questions_gives_every_weight_a_zero_gradient():
    model = decoder_only()
    batch = make_batch(3, 5, 5, seed=0)
    answer = model(batch, batch.valid_BT.long() - 1, torch.zeros_like(batch.valid_BT))
    assert answer.shape == (0, VOCABULARY)
    answer.sum().backward()
    assert all(torch.equal(parameter.grad, torch.zeros_like(parameter)) for parameter in model.parameters())


def test_padding_may_hold_any_number():
    model, case = decoder_only(), left_to_right(make_batch(4, 5, 5, seed=0))
    strange = case.batch.tokens_BT.masked_fill(~case.batch.valid_BT, -100)
    for naive in (False, True):
        assert torch.equal(logits(model, case.with_tokens(strange), naive), logits(model, case, naive))


def test_training_and_evaluation_mode_give_the_same_numbers():
    model, case = decoder_only(), left_to_right(make_batch(4, 5, 5, seed=0))
    assert torch.equal(logits(model.train(), case), logits(model.eval(), case))
