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
    from clew.api import config, evaluate, generate, load, read, solve, train
    from clew.mazes.maze import Maze, Task
    from clew.paper.named_configs import list_configs
    from clew.registry import list_models, register

__version__ = "0.2.0"
__all__ = ["Maze", "Task", "config", "evaluate", "generate", "list_configs", "list_models"]
__all__ += ["load", "read", "register", "solve", "train"]

_MODULE_OF = {"Maze": "mazes.maze", "Task": "mazes.maze", "list_configs": "paper.named_configs"}
_MODULE_OF |= {"list_models": "registry", "register": "registry"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    from importlib import import_module

    globals()[name] = value = getattr(import_module(f"clew.{_MODULE_OF.get(name, 'api')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
