"""The path-star format: a path-star graph as the list of its edges.

    3 5 | 5 1 | 3 2 | 2 6 | 3 6 <PATH_START> 3 2 6 <PATH_END>

all on one line: a pair of labels and `|` for each edge, the node nearer to the centre first, in random order; then the
start and the goal. One token a label. `path-star-reversed` is the same with the path from the goal to the start, which
takes the choice at the centre away: every node is then the one before the last on the way from the centre.

A text names the labels of its nodes only. Where `parse` is not told how many labels there are, it takes the smallest
number that holds them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew.errors import UserError
from clew.mazes.maze import MIN_LABELS, Edge, Path, PathStar, Task, check_labels
from clew.tokenization.tokens import PATH_END, PATH_START, Parsed, TokenReader, Written, edge_order
from clew.tokenization.vocabulary import Vocabulary

EDGE_END = "|"


@dataclass(frozen=True)
class PathStarList:
    """The format of path-star graphs; `reverse` writes the path from the goal to the start."""

    reverse: bool = False
    end_token: str = PATH_END

    @property
    def name(self) -> str:
        return "path-star-reversed" if self.reverse else "path-star"

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        """The tokens of graphs with `width` labels; `height` is 1."""
        if height != 1:
            raise UserError(f"{self.name} text is for path-star graphs, not for mazes; use edge-list or grid.")
        check_labels(width)
        return Vocabulary.of([EDGE_END, PATH_START, PATH_END, *map(str, range(width))])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Written:
        if not isinstance(task.maze, PathStar):
            raise UserError(f"{self.name} text is for path-star graphs, not for mazes; use edge-list or grid.")
        edges = task.maze.edges()
        order, _ = edge_order(seed, len(edges))  # the direction of an edge is part of the graph
        return self.encode_edges([edges[i] for i in order], task, path)

    def encode_edges(self, edges: Sequence[Edge], task: Task, path: Path | None) -> Written:
        """The text whose edges stand in this order."""
        prompt = [token for a, b in edges for token in (str(a[1]), str(b[1]), EDGE_END)]
        prompt += [str(task.start[1]), str(task.goal[1]), PATH_START]
        nodes = [] if path is None else path[::-1] if self.reverse else path
        return Written(prompt, [*(str(node) for _, node in nodes), PATH_END] if nodes else [])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """What the text says; without a number of labels (`width`), the smallest that holds all of its nodes."""
        reader = TokenReader(tokens)
        pairs: list[tuple[int, int]] = []
        while True:
            start, goal = reader.number(width, "a node"), reader.number(width, "a node")
            if not reader.skip(EDGE_END):
                break
            pairs.append((start, goal))
        if reader.peek() not in (None, PATH_START):
            reader.fail(f"{EDGE_END}, {PATH_START} or the end of the text")
        path = None
        if reader.skip(PATH_START) and not reader.is_done:
            path = self._parse_nodes(reader, width)
        named = [node for pair in pairs for node in pair]
        for what, node in (("start", start), ("goal", goal)):
            if node not in named:
                raise UserError(f"the {what} {node} is on no edge of the graph; name one of its nodes.")
        labels = width or max(MIN_LABELS, 1 + max([*named, *(node for _, node in path or [])]))
        task = Task(PathStar.from_pairs(labels, pairs), (0, start), (0, goal))
        return Parsed(task, path, edges=tuple(((0, a), (0, b)) for a, b in pairs))

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        return self._parse_nodes(TokenReader(tokens), width)

    def _parse_nodes(self, reader: TokenReader, labels: int | None) -> Path:
        nodes = [(0, reader.number(labels, "a node"))]
        while not reader.skip(PATH_END):
            nodes.append((0, reader.number(labels, f"{PATH_END} or a node")))
        reader.expect_end()
        return nodes[::-1] if self.reverse else nodes
