"""Codec: tasks to decoding states and responses to paths, also of smaller mazes; one sentence for what does not fit."""

import pytest
import torch
from decoding_fakes import FORMS, tasks_for

from clew.decoding.codec import Codec
from clew.errors import UserError


@pytest.mark.parametrize("form", [*FORMS, "cell-labels"])
@pytest.mark.parametrize("model_side", [5, 8])
def test_the_true_response_reads_back_as_the_path(form, model_side):
    tasks = tasks_for(form if form in FORMS else "edge-list")
    codec = Codec.of(form, model_side, model_side)
    token_BR, length_B = codec.truth(tasks)
    for i in range(len(tasks)):
        response = token_BR[i, : int(length_B[i])].tolist()
        assert codec.read(response, 5, 5) == tasks[i][1]
        assert response[-1] == codec.end(5, 5)
        assert len(response) <= codec.max_response_length(5, 5)


def test_a_smaller_maze_is_written_with_the_larger_vocabulary():
    tasks = tasks_for("edge-list", count=1)
    small, large = Codec.of("edge-list", 5, 5), Codec.of("edge-list", 10, 10)
    words = [
        codec.vocabulary.decode(codec.decoding_state(tasks).prompt.tokens_BT[0].tolist()) for codec in (small, large)
    ]
    assert words[0] == words[1]
    assert not torch.equal(small.decoding_state(tasks).prompt.tokens_BT, large.decoding_state(tasks).prompt.tokens_BT)


@pytest.mark.parametrize("form", ["edge-list", "wall-list"])
def test_a_maze_larger_than_the_model_is_refused(form):
    with pytest.raises(UserError, match=r"the model does not know the token .* mazes of 5 rows and 5 columns"):
        Codec.of(form, 4, 4).decoding_state(tasks_for(form))


def test_a_cell_network_takes_any_size():
    codec = Codec.of("cell-labels", 4, 4)
    assert codec.max_response_length(6, 6) == 37
    assert codec.decoding_state(tasks_for("grid", side=6)).responses()[0].shape == (6, 37)


def test_labels_are_read_as_words():
    assert [Codec.of("cell-labels", 4, 4).token_text(label) for label in (0, 1)] == ["off", "on"]
    text = Codec.of("edge-list", 4, 4)
    assert text.token_text(text.end(4, 4)) == "<PATH_END>"


def test_mazes_that_the_format_cannot_write_are_refused():
    with pytest.raises(UserError, match="walls between cells"):
        Codec.of("wall-list", 5, 5).decoding_state(tasks_for("edge-list"))


@pytest.mark.parametrize("response", [[], [1, 2], [25]])
def test_cells_that_say_no_path(response):
    with pytest.raises(UserError, match=f"{len(response)} labelled cells are no path with an end"):
        Codec.of("cell-labels", 5, 5).read(response, 5, 5)


def test_random_tokens_say_no_path():
    codec = Codec.of("edge-list", 5, 5)
    with pytest.raises(UserError, match="token 1 is"):
        codec.read([127, 3, 90], 5, 5)
