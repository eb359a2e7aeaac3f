"""Imports walk one way: a room imports only from rooms to its left, and the rules that DESIGN draws beside that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "clew"
WALK = ["mazes", "tokenization", "data", "objectives", "models", "decoding", "evaluation", "viz", "training"]
WALK += ["solution", "trained", "paper", "web"]
# What any room may use: it knows nothing of mazes.
COMMON = {"errors", "files", "provenance", "registry"}
LAZY = {("evaluation", "viz")}  # Evaluation.save_html imports the report when it is called
FORBIDDEN = {("models", "objectives"), ("evaluation", "training")}
# These stand on top of the rooms and may use all of them.
ON_TOP = {"commands", "demo", "api"}


def room_of(module: str) -> str:
    """The part after `clew.`: `clew.mazes.maze` is in `mazes`; `clew` itself, the version, is in ``."""
    return module.split(".")[1] if "." in module else ""


# A maze draws itself in a notebook.
EXCEPTIONS = {("mazes/maze.py", "clew.viz.drawing")}


def allowed(importer: str, imported: str) -> bool:
    """Whether one part of the package may import from another."""
    if imported in COMMON | {"", importer}:
        return True
    if importer == "__init__":
        return imported in {"api", "trained", "registry"}  # `clew.load`, imported when it is called
    if importer in COMMON or imported in {"cli", "web"}:
        return (importer, imported) in {("__main__", "cli"), ("commands", "web")}  # `clew serve` starts the page
    if importer == "cli":
        return imported == "commands"
    if importer in ON_TOP:
        return imported in WALK or (imported in ON_TOP - {"commands"})
    if (importer, imported) in FORBIDDEN | LAZY:
        return (importer, imported) in LAZY
    return imported in WALK[: WALK.index(importer)]


def imports(file: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and module of each import of the package, also inside functions."""
    folder = ["clew", *file.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "clew")
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            if module == "clew":  # `from clew import mazes` imports a room, `from clew import __version__` none
                yield from (
                    (node.lineno, f"clew.{alias.name}" if _exists(alias.name) else "clew") for alias in node.names
                )
            elif module.split(".")[0] == "clew":
                yield node.lineno, module


def _exists(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def wrong_imports(file: Path, source: str) -> list[str]:
    importer = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return [
        f"{file.relative_to(PACKAGE)}:{line} imports {module}"
        for line, module in imports(file, ast.parse(source))
        if not allowed(importer, room_of(module)) and (file.relative_to(PACKAGE).as_posix(), module) not in EXCEPTIONS
    ]


def test_imports_walk_one_way() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    wrong = [problem for file in files for problem in wrong_imports(file, file.read_text())]
    assert wrong == []


def test_every_part_has_its_place() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts <= {*WALK, *COMMON, *ON_TOP, "cli", "__init__", "__main__"}


def test_the_command_line_names_its_commands_as_text_only() -> None:
    """`clew --help` must import nothing heavy, so cli.py imports no command at the top."""
    tree = ast.parse((PACKAGE / "cli.py").read_text())
    assert {room_of(module) for _, module in imports(PACKAGE / "cli.py", tree)} <= COMMON | {""}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("mazes/a.py", "from clew.tokenization.ascii import draw_ascii"),
        ("mazes/a.py", "def f():\n    import clew.viz.picture"),
        ("mazes/a.py", "from clew.viz.drawing import task_svg"),
        ("mazes/a.py", "from ..text import ascii"),
        ("mazes/a.py", "from clew import cli"),
        ("models/a.py", "from clew.objectives.loss import loss"),
        ("evaluation/a.py", "from clew.training import loop"),
        ("viz/a.py", "from clew.commands.draw import draw"),
        ("files.py", "from clew.mazes.maze import Maze"),
        ("demo.py", "from clew.cli import run"),
        ("demo/a.py", "import clew.web"),
        ("commands/a.py", "from clew.cli import run"),
    ],
)
def test_a_wrong_import_is_seen(file: str, source: str) -> None:
    assert len(wrong_imports(PACKAGE / file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("tokenization/a.py", "from clew.mazes.maze import Maze"),
        ("viz/a.py", "from .shapes import Fill"),
        ("models/a.py", "from clew.data.batch import Batch\nfrom clew import __version__"),
        ("demo.py", "from clew.viz.picture import save_picture\nimport json"),
        ("__main__.py", "from clew.cli import main"),
        ("commands/a.py", "from clew.demo import run"),
    ],
)
def test_a_right_import_is_left_alone(file: str, source: str) -> None:
    assert wrong_imports(PACKAGE / file, source) == []
