"""The presets of models that read cells: one recipe, and sizes that one set of weights can serve."""

import pytest

from clew.experiments.grid_presets import GRID_PRESETS
from clew.experiments.presets import PRESETS
from clew.models.build import build_model, count_parameters
from clew.training.config import TrainConfig


@pytest.mark.parametrize("name", GRID_PRESETS)
def test_grid_presets_read_cells_and_share_one_recipe(name: str) -> None:
    stage = next((end for end in ("-largest", "-large") if name.endswith(end)), "")
    config, other = PRESETS[name].make(), PRESETS["grid-dfs" + stage].make()
    assert config.data.format == "grid"
    assert (config.optimizer, config.ema) == (other.optimizer, other.ema)
    assert config.objective.name == ("next-token" if "next" in name else "mlm-u")
    assert config.data.tail == (1 if "next" in name else 2)
    assert TrainConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize("suffix", ["", "-large", "-largest"])
def test_the_rival_differs_in_model_objective_and_tail_alone(suffix: str) -> None:
    pointer, rival = (PRESETS[name + suffix].make().to_json() for name in ("grid-dfs", "grid-next-dfs"))
    assert {name for name in pointer if pointer[name] != rival[name]} == {"model", "objective", "data"}
    assert pointer["data"] | {"tail": 1} == rival["data"]
    sizes = [count_parameters(build_model(PRESETS[name].make().model, 0)) for name in ("grid-dfs", "grid-next-dfs")]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)


def test_the_demo_is_smaller_and_short() -> None:
    config = PRESETS["demo-5x5"].make()
    assert (config.data.sizes, config.budget.minutes) == ((5,), 2)
    assert config.model.loops(5, 5) == 7
