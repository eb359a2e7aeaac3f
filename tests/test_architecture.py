"""The order of packages: a module imports only from packages before its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "clew"
# Any package may use these; they know nothing of mazes.
COMMON = ["errors", "files", "registry", "jit", "provenance"]
ORDER = ["mazes", "tokenization", "data", "objectives", "models", "decoding", "evaluation", "solution"]
ORDER += ["viz", "training", "trained", "paper", "web"]
# These use all of the above, and those of this list before them.
TOP = ["api", "commands", "cli"]
FORBIDDEN = {("models", "objectives"), ("evaluation", "training"), ("decoding", "training")}
# Imported inside a method when it is called: drawings and reports of an object.
LAZY = {("evaluation", "viz"), ("mazes", "viz"), ("solution", "viz")}

MOST_MODULES = 103


def package_of(module: str) -> str:
    """Return the part after `clew.`; "" for `clew` itself."""
    return module.split(".")[1] if "." in module else ""


def allowed(importer: str, imported: str, top_level: bool) -> bool:
    """Return whether one part of the package may import another."""
    if imported in {*COMMON, "", importer}:
        return True
    if importer == "__init__":
        return not top_level
    if importer == "__main__":
        return imported == "cli"
    if importer in COMMON or (importer, imported) in FORBIDDEN:
        return False
    if (importer, imported) in LAZY:
        return not top_level
    order = [*ORDER, *TOP]
    return imported in order[: order.index(importer)] and (imported != "web" or importer == "commands")


def imports(file: Path, tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield line and module of each import of the package, and whether it runs when the module is imported."""
    folder = ["clew", *file.relative_to(PACKAGE).parts[:-1]]
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "clew":
                    yield node.lineno, alias.name, id(node) in top
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            if module == "clew":  # `from clew import mazes` imports a package, `from clew import __version__` none
                for alias in node.names:
                    yield node.lineno, f"clew.{alias.name}" if _exists(alias.name) else "clew", id(node) in top
            elif module.split(".")[0] == "clew":
                yield node.lineno, module, id(node) in top


def _exists(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def wrong_imports(file: Path, source: str) -> list[str]:
    importer = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return [
        f"{file.relative_to(PACKAGE)}:{line} imports {module}"
        for line, module, top_level in imports(file, ast.parse(source))
        if not allowed(importer, package_of(module), top_level)
    ]


def test_imports_follow_the_order() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert [problem for file in files for problem in wrong_imports(file, file.read_text())] == []


def test_the_package_stays_small() -> None:
    assert 20 < len(list(PACKAGE.rglob("*.py"))) <= MOST_MODULES


def test_every_part_has_its_place() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts <= {*COMMON, *ORDER, *TOP, "__init__", "__main__"}


def test_the_command_line_imports_no_command_at_the_top() -> None:
    tree = ast.parse((PACKAGE / "cli.py").read_text())
    assert {module for _, module, top_level in imports(PACKAGE / "cli.py", tree) if top_level} == {
        "clew",
        "clew.errors",
    }


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("mazes/a.py", "from clew.tokenization.drawings import draw_ascii"),
        ("mazes/a.py", "import clew.viz.drawing"),
        ("mazes/a.py", "from ..text import ascii"),
        ("mazes/a.py", "from clew import cli"),
        ("models/a.py", "from clew.objectives.targets import Targets"),
        ("evaluation/a.py", "from clew.training import loop"),
        ("decoding/a.py", "def f():\n    from clew.training import loop"),
        ("viz/a.py", "from clew.commands.draw import draw"),
        ("files.py", "from clew.mazes.maze import Maze"),
        ("api.py", "from clew.commands.train import train"),
        ("commands/a.py", "from clew.cli import run"),
        ("__init__.py", "from clew.mazes.maze import Maze"),
    ],
)
def test_a_wrong_import_is_found(file: str, source: str) -> None:
    assert len(wrong_imports(PACKAGE / file, source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("tokenization/a.py", "from clew.mazes.maze import Maze"),
        ("viz/a.py", "from .shapes import Fill"),
        ("models/a.py", "from clew.data.batch import Batch\nfrom clew import __version__"),
        ("api.py", "from clew.viz.drawing import save_picture\nimport json"),
        ("__main__.py", "from clew.cli import main"),
        ("commands/a.py", "from clew.api import config"),
        ("mazes/a.py", "def f():\n    import clew.viz.drawing"),
    ],
)
def test_a_right_import_passes(file: str, source: str) -> None:
    assert wrong_imports(PACKAGE / file, source) == []
