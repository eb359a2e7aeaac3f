"""The vocabulary of a format: its tokens and their ids.

    vocabulary = Vocabulary.of(["(0,0)", "(0,1)", ";"])
    ids_T = vocabulary.encode(["(0,1)", ";"])
    tokens = vocabulary.decode(ids_T)

A token's id is its place in the list of all tokens sorted as strings. Models use `size`, which is rounded up to a
multiple of 128 so that their matrices have a shape that is fast everywhere; the ids above the last token are unused.

Shape suffixes: T tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.tokenization.tokens import quoted

PAD, MASK, BOS, EOS, UNK = SPECIAL_TOKENS = ("[PAD]", "[MASK]", "[BOS]", "[EOS]", "[UNK]")
SIZE_MULTIPLE = 128


def padded_size(tokens: int) -> int:
    """Return the number of ids that a model has for so many tokens."""
    return -(-tokens // SIZE_MULTIPLE) * SIZE_MULTIPLE


@dataclass(frozen=True)
class Vocabulary:
    """All tokens of a format, sorted as strings; a token's id is its place."""

    tokens: tuple[str, ...]

    @classmethod
    def of(cls, tokens: Iterable[str]) -> Vocabulary:
        """Return the vocabulary of these tokens and the special ones."""
        return cls(tuple(sorted({*tokens, *SPECIAL_TOKENS})))

    def __post_init__(self) -> None:
        if not all(isinstance(token, str) and token and not any(c.isspace() for c in token) for token in self.tokens):
            raise UserError("a vocabulary's tokens must be texts without spaces.")
        if list(self.tokens) != sorted(set(self.tokens)):
            raise UserError("a vocabulary's tokens must be sorted as strings, each once.")
        if missing := [token for token in SPECIAL_TOKENS if token not in self.tokens]:
            raise UserError(f"a vocabulary must hold the special tokens, but {' '.join(missing)} is missing.")

    @cached_property
    def id_of(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    @property
    def size(self) -> int:
        """The number of ids a model must have: the number of tokens rounded up to a multiple of 128."""
        return padded_size(len(self.tokens))

    @property
    def pad_id(self) -> int:
        return self.id_of[PAD]

    def encode(self, tokens: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of the tokens; an unknown token is named with its place."""
        id_of = self.id_of
        try:
            return np.array([id_of[token] for token in tokens], dtype=np.int32)
        except KeyError:
            place, token = next((i, token) for i, token in enumerate(tokens) if token not in id_of)
            raise UserError(
                f"token {place + 1} is {quoted(token)}, which is not among the {len(self.tokens)} tokens of the "
                "vocabulary: check the maze's size and format against the ones the vocabulary was made for."
            ) from None

    def decode(self, ids_T: Iterable[int]) -> list[str]:
        """Return the tokens of the ids; an id without a token (a model may predict one) reads [UNK]."""
        count = len(self.tokens)
        return [self.tokens[i] if 0 <= i < count else UNK for i in map(int, ids_T)]
