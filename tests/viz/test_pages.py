"""The evaluation page: everything inside it, nothing of the user's taken for HTML, charts within their frames."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from clew.errors import UserError
from clew.evaluation.scores import Evaluation, Outcome, Token
from clew.mazes.generate import generate
from clew.provenance import provenance
from clew.viz import pages
from clew.viz.pages import Page, page_html, write_page

VOID = {"meta", "br", "path", "circle", "rect", "use"}


class Balance(HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def evaluation(name, decoder, spoil):
    tasks = generate("dfs", 5, 5, seed=0, first=0, count=8, split="test", workers=1)
    outcomes = []
    for i in range(len(tasks)):
        task, path = tasks[i]
        predicted = spoil(i, path)
        said = [Token(0.05 + 0.9 * i / 8, predicted == path) for _ in path]
        problem = None if predicted else "token 1 is '<b>', which is no cell."
        outcomes.append(Outcome(task, path, predicted, problem, said, len(path) + 1, passes=i + 1))
    return Evaluation(name, decoder, tuple(outcomes), 0.5)


PAGE = Page(
    "a <b>title</b>",
    [
        evaluation("one & only", "left-to-right", lambda i, path: path),
        evaluation("one & only", "threshold", lambda i, path: [path, path[:-1], path[::2], None][i % 4]),
    ],
    provenance("clew evaluate x", [0]),
    notes=["a note <script>alert(1)</script>"],
)


@pytest.fixture(autouse=True)
def few_tokens_suffice(monkeypatch):
    monkeypatch.setattr(pages, "FEWEST_TOKENS", 2)


def test_the_page_is_sound_and_whole():
    html = page_html(PAGE)
    balance = Balance()
    balance.feed(html)
    assert balance.open == []
    assert "<script" not in html
    assert "a &lt;b&gt;title" in html
    assert "one &amp; only" in html
    assert "token 1 is &#39;&lt;b&gt;" in html
    assert not re.search(r"src=|href=\"[^#]|url\([^#]|@import|http(?!://www.w3.org/2000/svg)", html)
    for heading in ("Scores", "Failures", "Solved", "Failed", "short of the goal", "unparsable"):
        assert heading in html
    assert html.count('class="chart"') == 3


def test_the_page_says_where_it_comes_from_and_lists_every_maze():
    html = page_html(PAGE)
    assert "Made by <code>clew evaluate x</code>. Seed 0." in html
    assert f"{PAGE.origin['cores']} cores of {PAGE.origin['cpu']}" in html
    assert html.count("all 8 mazes</summary>") == 2
    listed = html.split("all 8 mazes</summary>")[2].split("</details>")[0]
    assert [listed.count(f"<td>{result}</td>") for result in ("exact", "unparsable")] == [2, 2]
    assert "</span>goal</li>" in html


def test_a_page_where_nothing_failed_and_one_where_all_did():
    perfect = page_html(Page("x", [evaluation("m", "d", lambda i, path: path)], PAGE.origin))
    assert "No maze failed." in perfect
    assert "Failed" not in perfect
    hopeless = page_html(Page("x", [evaluation("m", "d", lambda i, path: None)], PAGE.origin))
    assert "<h2>Solved" not in hopeless


def test_it_is_written_whole_or_not_at_all(tmp_path):
    write_page(tmp_path / "out.html", PAGE)
    assert (tmp_path / "out.html").read_text().endswith("</html>")
    with pytest.raises(UserError, match="does not exist"):
        write_page(tmp_path / "no" / "out.html", PAGE)


def test_decoders_with_the_same_values_share_a_line():
    names = ("left-to-right", "threshold", "certainty")
    page = page_html(Page("x", [evaluation("m", name, lambda i, path: path) for name in names], PAGE.origin))
    assert "<td>left-to-right = threshold = certainty</td>" in page


def test_calibration_needs_two_bins():
    sure = evaluation("m", "d", lambda i, path: path)
    outcomes = tuple(replace(each, tokens=[Token(0.99, True)] * each.length) for each in sure.outcomes)
    assert "Calibration" not in page_html(Page("x", [replace(sure, outcomes=outcomes)], PAGE.origin))
    assert "Calibration" in page_html(PAGE)
