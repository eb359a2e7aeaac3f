"""Clew: transformers that plan paths through mazes.

>>> import clew
>>> batch = clew.generate("dfs", size=10, n=1000, seed=0)
>>> task, path = batch[0]
>>> events = clew.solve(task, method="astar").trace
>>> model = clew.load("cells-dfs")
>>> solution = model.solve(task)
>>> solution.is_valid, solution.is_shortest, solution.path == path
(True, True, True)
>>> scores = model.evaluate(family="dfs", size=6, n=20)
>>> round(scores.exact.share, 2)
1.0
>>> scores.save_html("report.html")
>>> config = clew.config("laptop-dfs-4-mlmu", steps=2, lr=3e-4, held_out=4, batch_size=8)
>>> run = clew.train(config, out="runs/x", quiet=True)
>>> run.metrics[-1]["kind"], len(run.model.solve(clew.generate("dfs", size=4)[0][0]).steps) > 0
('evaluation', True)
>>> clew.list_models()[0], list(clew.list_configs())[0]
('cells-astar', 'tiny')

Every name is imported when it is first used: `import clew` needs neither torch nor numpy.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # what type checkers and editors see
    from clew.api import config as config
    from clew.api import evaluate as evaluate
    from clew.api import generate as generate
    from clew.api import load as load
    from clew.api import read as read
    from clew.api import solve as solve
    from clew.api import train as train
    from clew.mazes.maze import Maze as Maze
    from clew.mazes.maze import Task as Task
    from clew.paper.named_configs import list_configs as list_configs
    from clew.registry import list_models as list_models
    from clew.registry import register as register

__version__ = "0.2.0"

_API = ("config", "evaluate", "generate", "load", "read", "solve", "train")
_MODULE_OF = dict.fromkeys(_API, "clew.api")
_MODULE_OF |= {"Maze": "clew.mazes.maze", "Task": "clew.mazes.maze", "list_configs": "clew.paper.named_configs"}
_MODULE_OF |= {"list_models": "clew.registry", "register": "clew.registry"}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    from importlib import import_module

    globals()[name] = value = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
