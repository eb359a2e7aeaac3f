"""The documents are correct: links resolve, the file tree is the real one, the shown commands give the shown output,
and the quoted numbers are the measured ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from clew.cli import run
from clew.files import read_json
from clew.mazes.generate import generate

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BY_NAME = {str(page.relative_to(ROOT)): page for page in PAGES}


def code_blocks(page: Path, language: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.M | re.S)
    return [block for named, block in blocks if named == language]


def commands_shown(page: Path) -> list[tuple[str, str]]:
    """Each `$ command` with the output that is shown below it."""
    shown = []
    for block in code_blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            shown.append((command, output))
    return shown


@pytest.mark.parametrize("name", BY_NAME)
def test_links_resolve(name: str) -> None:
    page = BY_NAME[name]
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [page.name for page in PAGES[2:] if page.name != "index.md" and f"({page.name})" not in index] == []


def test_the_file_tree_is_the_real_one() -> None:
    tree = next(block for block in code_blocks(ROOT / "docs" / "architecture.md", "") if block.startswith("src/clew/"))
    shown = {line.split()[0].rstrip("/") for line in tree.splitlines() if line.startswith("  ")}
    package = ROOT / "src" / "clew"
    real = {path.name for path in package.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert shown == real - {"__init__.py"}
    folders = [line.split()[0] for line in tree.splitlines() if not line.startswith(" ")]
    assert folders == [folder for folder in folders if (ROOT / folder).is_dir()]


@pytest.mark.parametrize("name", [name for name, page in BY_NAME.items() if commands_shown(page)])
def test_shown_commands_give_the_shown_output(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, output in commands_shown(BY_NAME[name]):
        words = shlex.split(command)
        if words[0] == "cat":
            Path(words[1]).write_text(output)
            continue
        assert words[0] == "clew"
        code = run(words[1:])
        printed = capsys.readouterr()
        assert (code, printed.out) == (0, output), command


@pytest.mark.parametrize("name", [name for name, page in BY_NAME.items() if code_blocks(page, "python")])
def test_shown_python_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A page may use "task" and "path" without making them, and a block the names of the blocks before it.
    task, path = generate("dfs", 5, 5, seed=0, first=0, count=1, split="any")[0]
    names = {"task": task, "path": path}
    for block in code_blocks(BY_NAME[name], "python"):
        exec(compile(block, name, "exec"), names)


def test_the_path_lengths_are_the_measured_ones() -> None:
    names = {"astar": "A*", "dfs": "DFS"}
    rows = [
        f"| {names[row['family']]} | {row['size']}x{row['size']} | {row['mean']:.1f} | {row['standard_deviation']:.1f} "
        f"| {row['longest']} | {row['one_shortest']:.1%} |"
        for row in read_json(ROOT / "results" / "path-lengths.json")["path_lengths"]
    ]
    assert "\n".join(rows) in (ROOT / "docs" / "mazes.md").read_text()


def test_the_tasks_of_a_mazes_are_the_measured_ones() -> None:
    measured = read_json(ROOT / "results" / "astar-tasks.json")

    def line(row: dict[str, Any], counts: str) -> str:
        shares = f"{100 * row['wall_share']:.1f} | {row['path_cells']:.1f} | {100 * row['one_shortest']:.1f}"
        return f"| {row['height']}x{row['width']} | {row['tasks_per_layout']} | {counts} | {shares} |"

    rows = [line(measured["published"], "published | |")]
    rows += [line(row, f"{row['split']} | {row['tasks']:,} | {row['layouts']:,}") for row in measured["splits"]]
    assert "\n".join(rows) in (ROOT / "docs" / "data.md").read_text()


def test_the_speed_of_generation_is_the_measured_one() -> None:
    measured = read_json(ROOT / "results" / "generation.json")
    rows = [
        f"| {each['what']} | {each['against']} | {each['ratio']:,.0f} | {each['ratio_one_core']:,.0f} |"
        for each in measured["comparisons"]
    ]
    page = (ROOT / "docs" / "mazes.md").read_text()
    assert "\n".join(rows) in page
    assert f"{measured['peak_memory_mb']:,.0f} MB" in page


def test_the_speed_of_training_is_the_measured_one() -> None:
    measured = read_json(ROOT / "results" / "training-speed.json")
    page = (ROOT / "docs" / "models.md").read_text()
    assert f"{measured['ratio']:.2f} times" in page
    assert f"at {100 * measured['fast']['share_of_peak']:.0f} % of the" in page


def test_the_half_hour_is_the_measured_one() -> None:
    runs = read_json(ROOT / "results" / "text-dfs-4-pair.json")["runs"]
    exact = {run["labels"]["objective"]: run["exams"]["held-out"]["exact"] for run in runs}
    assert exact["MLM-U"]["low"] > 0.95
    page = (ROOT / "docs" / "training.md").read_text()
    assert f"On {exact['MLM-U']['count']:,} held-out mazes MLM-U solves {100 * exact['MLM-U']['share']:.1f} %" in page
    assert f"next token {100 * exact['next token']['share']:.1f} %" in page


def test_the_table_of_decoders_is_the_measured_one() -> None:
    models = read_json(ROOT / "results" / "decoders.json").values()
    rows = []
    for each in zip(*(model["evaluations"] for model in models), strict=True):
        cells = [f"{100 * e['exact']['share']:.1f} | {e['passes']:.1f}" for e in each]
        rows.append(f"| `{each[0]['decoder']}` | {' | '.join(cells)} |")
    assert "\n".join(rows) in (ROOT / "docs" / "decoding.md").read_text()
