"""Asked steps side by side: mazes that ask for about as many steps go together, so that little is padded.

    packed = pack(ask_BT)
    step_P = packed.step_P                      # which step is asked at each place
    for some_PD, some_BND in zip(packed.places(x_PD), packed.mazes(cells_BND[packed.order_A])):
        ...                                     # [mazes, places, D] and [mazes, N, D] of one pack
    x_PD[packed.place_Q]                        # the asked steps, maze after maze

A batch of 10x10 mazes asks one maze for thirty steps and the next one for three; padded to the most, two thirds of all
places are empty. A pack ends where a maze asks for less than half of what its first one does.

Shape suffixes: B mazes, A mazes that ask something, T steps, P places, Q asked steps of all mazes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packed:
    """Where every asked step has its place."""

    order_A: Tensor  # the mazes, those that ask the most first
    packs: list[tuple[int, int]]  # mazes, and places of each
    step_P: Tensor  # the step asked at a place; 0 where none is
    place_Q: Tensor

    def places(self, x_P: Tensor) -> list[Tensor]:
        """What stands at the places, by pack: [mazes, places, ...]."""
        parts = torch.split_with_sizes(x_P, [mazes * places for mazes, places in self.packs])
        return [part.view(*pack, *x_P.shape[1:]) for part, pack in zip(parts, self.packs, strict=True)]

    def mazes(self, x_A: Tensor) -> tuple[Tensor, ...]:
        """What belongs to the mazes, in the order of `order_A`, by pack."""
        return torch.split_with_sizes(x_A, [mazes for mazes, _ in self.packs])


def pack(ask_BT: Tensor) -> Packed:
    """Give every asked step a place."""
    count_B, order_B = ask_BT.sum(1).sort(descending=True, stable=True)
    packs: list[tuple[int, int]] = []
    for count in count_B.tolist():
        if count == 0 and packs:
            break
        mazes, places = packs.pop() if packs and 2 * count >= packs[-1][1] else (0, count)
        packs.append((mazes + 1, places))
    # The places of a maze begin after those of the mazes before it.
    places_A = torch.tensor([places for mazes, places in packs for _ in range(mazes)], device=ask_BT.device)
    begin_B = torch.zeros_like(count_B)
    begin_B[order_B[: len(places_A)]] = places_A.cumsum(0) - places_A
    row_Q, step_Q = ask_BT.nonzero(as_tuple=True)
    place_Q = begin_B[row_Q] + (ask_BT.cumsum(1) - 1)[row_Q, step_Q]
    step_P = torch.zeros(int(places_A.sum()), dtype=torch.long, device=ask_BT.device)
    step_P[place_Q] = step_Q
    return Packed(order_B[: len(places_A)], packs, step_P, place_Q)
