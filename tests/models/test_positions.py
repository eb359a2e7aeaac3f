import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UserError
from clew.models.blocks import Positions, round_to_half

HEAD_WIDTH = 8


def rope(choice="rope-fp32"):
    return Positions(choice, width=2 * HEAD_WIDTH, heads=2, max_length=16)


def score(choice, query, key, query_place, key_place):
    """The attention score of a query and a key at these positions."""
    positions = rope(choice)
    turned_query = positions.rotation(torch.tensor([[query_place]]))(query.view(1, 1, 1, -1))
    turned_key = positions.rotation(torch.tensor([[key_place]]))(key.view(1, 1, 1, -1))
    return float((turned_query * turned_key).sum())


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_rope_scores_depend_on_the_distance_alone(query_place, key_place, shift, seed):
    query, key = torch.randn(2, HEAD_WIDTH, generator=torch.Generator().manual_seed(seed))
    here = score("rope-fp32", query, key, query_place, key_place)
    there = score("rope-fp32", query, key, query_place + shift, key_place + shift)
    assert here == pytest.approx(there, abs=2e-3)


def test_rope_turns_the_halves_of_a_head_as_pairs():
    # A unit vector in the first pair, which turns by one radian a position.
    x = torch.zeros(1, 1, 3, HEAD_WIDTH)
    x[..., 0] = 1
    turned = rope().rotation(torch.tensor([[0, 1, 5]]))(x)[0, 0]
    position = torch.tensor([0.0, 1.0, 5.0])
    torch.testing.assert_close(turned[:, 0], position.cos())
    torch.testing.assert_close(turned[:, HEAD_WIDTH // 2], position.sin())
    # The slowest pair of a head of width 8 turns by 10,000 ** (-6/8) = 1/1000 radian a position.
    x = torch.zeros(1, 1, 1, HEAD_WIDTH)
    x[..., 3] = 1
    assert rope().rotation(torch.tensor([[500]]))(x)[0, 0, 0, 3].item() == pytest.approx(torch.tensor(0.5).cos().item())


def test_the_gradient_of_the_turn_is_the_formulas():
    position = torch.tensor([[3, 11]])
    x, weight = torch.randn(2, 1, 2, 2, HEAD_WIDTH, generator=torch.Generator().manual_seed(0))
    angle = position[0, :, None] * 10_000.0 ** -(torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)

    def formula(x):
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)

    values, gradients = [], []
    for function in (formula, rope().rotation(position)):
        leaf = x.clone().requires_grad_()
        values.append(function(leaf))
        (values[-1] * weight).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients)


def test_angles_stay_float32_under_autocast():
    position = torch.arange(4000)[None]
    x = torch.randn(1, 1, 4000, HEAD_WIDTH, generator=torch.Generator().manual_seed(0))
    expected = rope().rotation(position)(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(rope().rotation(position)(x), expected)
        # Queries in half precision lose their own digits and no more.
        half = rope().rotation(position)(x.bfloat16())
    assert half.dtype == torch.bfloat16
    assert (half.float() - expected).abs().max() < 0.05


def test_half_precision_loses_distant_positions():
    def error(start):
        position = torch.arange(start, start + 200)[None]
        x = torch.ones(1, 1, 200, HEAD_WIDTH)
        return (rope("rope-fp16").rotation(position)(x) - rope().rotation(position)(x)).abs().mean().item()

    assert 0 < error(0) < error(500) < error(2500)
    assert error(0) < 0.01
    assert error(2500) > 0.1


def test_half_precision_confuses_neighbours_past_2048():
    x = torch.randn(1, 1, 2, HEAD_WIDTH, generator=torch.Generator().manual_seed(0))
    x[:, :, 1] = x[:, :, 0]
    near, far = torch.tensor([[100, 101]]), torch.tensor([[2500, 2501]])
    at_far = rope("rope-fp16").rotation(far)(x)
    assert torch.equal(at_far[:, :, 0], at_far[:, :, 1])  # float16 has no 2501
    at_near = rope("rope-fp16").rotation(near)(x)
    assert not torch.equal(at_near[:, :, 0], at_near[:, :, 1])


def test_half_precision_is_what_float16_arithmetic_gives():
    position = torch.arange(0, 3000, 7)
    x = torch.randn(1, 1, len(position), HEAD_WIDTH, generator=torch.Generator().manual_seed(0))
    frequency = (10_000.0 ** -(torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)).half()
    angle = position.half()[:, None] * frequency
    cos, sin, first, second = angle.cos(), angle.sin(), *x.half().chunk(2, -1)
    expected = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    assert torch.equal(rope("rope-fp16").rotation(position[None])(x).half(), expected)


def test_rounding_passes_the_gradient_unrounded():
    x = torch.tensor([1.0001, 3e-9], requires_grad=True)
    (round_to_half(x) * torch.tensor([1e-9, 2.0])).sum().backward()
    assert torch.equal(x.grad, torch.tensor([1e-9, 2.0]))
    assert round_to_half(x)[1] == 0


def test_learned_positions_are_added_and_bounded():
    learned = Positions("learned", width=4, heads=2, max_length=5)
    x = torch.zeros(1, 2, 4)
    assert torch.equal(learned.add(x, torch.tensor([[4, 1]])), learned.table.weight[[4, 1]][None])
    assert learned.rotation(torch.tensor([[4, 1]]))(x) is x
    with pytest.raises(UserError, match="more than 5 tokens"):
        learned.add(x, torch.tensor([[5, 1]]))


def test_no_positions_change_nothing():
    nothing = Positions("none", width=4, heads=2, max_length=5)
    x = torch.zeros(1, 2, 4)
    assert nothing.add(x, torch.tensor([[4, 1]])) is x
    assert nothing.rotation(torch.tensor([[4, 1]]))(x) is x
