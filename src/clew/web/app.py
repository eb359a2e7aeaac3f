"""The web application: pages, API and their checks.

    app = App(Settings(runs=Path("runs")))

docs/web.md describes the API. Every error is JSON with one sentence. Cells are [x, y]; nodes of graphs are numbers.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from clew.data.readers import read_mazes
from clew.decoding.cells import CellWalk, loop_probabilities
from clew.decoding.codec import Step
from clew.decoding.decode import TaskStep, parse_decoder, split_steps
from clew.errors import UserError
from clew.evaluation.scores import classify
from clew.mazes.generate import generate
from clew.mazes.generators import star_shape
from clew.mazes.maze import Cell, PathStar, Task, TaskBatch
from clew.mazes.solvers import astar
from clew.registry import registered_names, shipped_models
from clew.solution import Solution
from clew.training.callbacks import curve
from clew.viz.animation import shown_loops
from clew.web.models import ModelStore, lookup, result_json, run_row
from clew.web.solving import Emit, Events, RequestError, SolveQueue

STATIC = Path(__file__).parent / "static"
PAGES = {"/": STATIC / "index.html", "/runs": STATIC / "runs.html", "/results": STATIC / "results.html"}
MAX_BODY_BYTES, MAX_SIDE = 1_000_000, 64
FAMILIES = ("dfs", "astar", "wilson", "kruskal", "percolation", "path-star-2x4", "path-star-5x4")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a newer version of the page is used at once
}


@dataclass(frozen=True)
class Settings:
    """Options of `clew serve`."""

    runs: Path | None = None
    results: Path = Path("results")
    # Names under which the page may be requested, each with and without the port; "*" allows every name.
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    workers: int = max(1, os.cpu_count() or 1)
    max_waiting: int = 64
    seconds: float = 30.0


def _failure(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, {"Retry-After": "2"} if status == 503 else {})


class App(Starlette):
    """The pages and the API; it refuses other hosts and origins, and adds headers. `stop()` ends all solves.

    If `warm`, models are loaded and kernels compiled first, so that a first visit is fast.
    """

    def __init__(self, settings: Settings, warm: bool = False) -> None:
        api = Api(settings)
        self.hosts, self.stop = settings.hosts, api.queue.stopping.set
        gets = {"models": api.models, "runs": api.runs, "runs/{name:path}": api.run, "results": api.results}
        routes = [
            *(Route(path, lambda request: FileResponse(PAGES[request.url.path])) for path in PAGES),
            *(Route(f"/api/{path}", each) for path, each in gets.items()),
            Route("/api/results/{name}.png", api.picture),
            *(Route(f"/api/{name}", api.post, methods=["POST"]) for name in ("generate", "read", *api.solves)),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        handlers: Any = {
            404: lambda request, error: _failure(404, f"there is no {request.url.path!r} here."),
            405: lambda request, error: _failure(400, f"{request.method} is not possible for {request.url.path!r}."),
            ClientDisconnect: lambda request, error: _failure(400, "the client closed the connection."),
            UserError: lambda request, error: _failure(getattr(error, "status", 400), str(error)),
            OSError: lambda request, error: _failure(400, "a file that this needs cannot be read."),
            Exception: lambda request, error: _failure(500, "the server failed; its terminal says why."),
        }
        super().__init__(routes=routes, exception_handlers=handlers)
        if warm:
            api.warm_up()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app: Any = super().__call__
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin")
            if "*" not in self.hosts and re.sub(r":\d+$", "", host).lower() not in self.hosts:
                app = _failure(400, "this server does not answer under that host name.")
            elif origin is not None and origin.partition("://")[2].lower() != host.lower():
                app = _failure(400, "requests from other sites are not answered.")
        await app(scope, receive, send_with_headers)


class Api:
    """The endpoints below /api; all but `post` run in threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = ModelStore(settings.runs)
        self.queue = SolveQueue(settings.workers, settings.max_waiting, settings.seconds)
        self.solves = {"solve": self.solve, "loops": self.loops, "animate": self.animate}

    def warm_up(self) -> None:
        """Do once what a first visit does."""
        self.store.listed()
        task = generate("dfs", 10, 10, seed=0, first=0, count=1, split="test", workers=1)[0][0]
        for name in {"cells-dfs", "cells-astar"} & shipped_models().keys():
            self.solution(task, {"model": name}, lambda step: None)

    def models(self, request: Request) -> Response:
        """The models with their decoders, and the maze families: built in, registered, and those of the models."""
        models = self.store.listed()
        names = [*FAMILIES, *registered_names("family"), *(model["family"] for model in models)]
        return JSONResponse({"models": models, "families": list(dict.fromkeys(names))})

    def runs(self, request: Request) -> Response:
        rows = [run_row(name, run) for name, run in self.store.runs().items()]
        return JSONResponse({"folder": self.settings.runs and str(self.settings.runs), "runs": rows})

    def run(self, request: Request) -> Response:
        run = lookup(self.store.runs(), request.path_params["name"], "run")
        return JSONResponse({"curves": {y: list(curve(run, y, "mazes")) for y in ("loss", "exact")}})

    def results(self, request: Request) -> Response:
        """Tables and verdicts of the studies that were run."""
        return JSONResponse(result_json(self.settings.results))

    def picture(self, request: Request) -> Response:
        pictures = {file.parent.name: file for file in sorted(self.settings.results.glob("*/*.png"))}
        return FileResponse(lookup(pictures, request.path_params["name"], "result"))

    async def post(self, request: Request) -> Response:
        """Answer with one JSON object or a GIF, or with one event a step."""
        body, name = b"", request.url.path.removeprefix("/api/")
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise RequestError(413, f"the request is larger than {MAX_BODY_BYTES:,} bytes.")
        if name == "read":
            return JSONResponse(await run_in_threadpool(self.read, body))
        value = json_object(body)
        if name == "generate":
            return JSONResponse(await run_in_threadpool(self.generate, value))
        events = self.queue.run(lambda emit: self.solves[name](value, emit), request.is_disconnected)
        if "text/event-stream" in request.headers.get("accept", ""):
            return StreamingResponse(_event_stream(events), media_type="text/event-stream")
        *_, (_, answer) = [event async for event in events]
        return Response(answer, media_type="image/gif") if isinstance(answer, bytes) else JSONResponse(answer)

    def generate(self, value: dict[str, Any]) -> Any:
        """Return a maze of a family, of the test split."""
        family, seed = field(value, "family", "dfs"), field(value, "seed", 0, range(2**63))
        height, width = (field(value, name, 10, range(2, MAX_SIDE + 1)) for name in ("height", "width"))
        if star := star_shape(family):
            height, width = 1, star.nodes
            if width > 1000:
                raise RequestError(413, "a path-star graph on the page has at most 1,000 nodes.")
        task, _ = generate(family, height, width, seed=seed, first=0, count=1, split="test", workers=1)[0]
        return {"family": family, **maze_json(task)}

    def read(self, body: bytes) -> Any:
        """Return the first maze of a text or of a file's bytes, and how many there are."""
        task, count = first_task(body)
        return {"count": count, **maze_json(task)}

    def solve(self, value: dict[str, Any], emit: Emit) -> Any:
        """Return a model's solution of a maze; emit its steps."""
        task = task_from(value.get("maze", ""))
        return solution_json(*self.solution(task, value, lambda step: emit(step_json(task, step))))

    def loops(self, value: dict[str, Any], emit: Emit) -> Any:
        """Return the probability of every cell after each loop of the first pass."""
        model, task = self.store.load(field(value, "model", "")), task_from(value.get("maze", ""))
        loops = loop_probabilities(model.model, task)
        kept = shown_loops(len(loops))
        return {"loops": [np.round(loops[i], 2).tolist() for i in kept], "numbers": [i + 1 for i in kept]}

    def animate(self, value: dict[str, Any], emit: Emit) -> bytes:
        """Return the solution as an animated GIF."""
        solution, _ = self.solution(task_from(value.get("maze", "")), value, emit)
        with tempfile.TemporaryDirectory() as folder:
            solution.animate(file := Path(folder) / "maze.gif")
            return file.read_bytes()

    def solution(self, task: Task, value: dict[str, Any], on_step: Emit) -> tuple[Solution, list[Cell]]:
        """Return the model's solution and the path of the deterministic A*."""
        model = self.store.load(field(value, "model", ""))
        decoder = field(value, "decoder", "") or None
        walk = parse_decoder(decoder) if decoder else None
        # Such a walk would run for minutes in one call of compiled code, which cannot be stopped.
        if isinstance(walk, CellWalk) and (walk.loops > 4 or walk.tolerance < 0.01 or walk.every > 16):
            raise UserError("a decoder on the page has loops up to 4, every up to 16 and a tolerance of at least 0.01.")
        exact_path = astar(task).path
        if exact_path is None:
            raise UserError("no path leads from start to goal; open one and solve again.")
        batch = TaskBatch.from_tasks([task], [exact_path])
        passes = 0

        def split(step: Step) -> None:
            nonlocal passes
            for one in split_steps(model.codec, batch, [step])[0]:
                passes += not one.hidden
                on_step(replace(one, number=passes))

        return model.solve(task, decoder, on_step=split), exact_path


async def _event_stream(events: Events) -> AsyncIterator[str]:
    """Yield server-sent events: `step` for each step, then `result`, or `error`."""
    async with aclosing(events):
        try:
            async for kind, value in events:
                yield f"event: {kind}\ndata: {json.dumps(value)}\n\n"
        except UserError as error:
            yield f"event: error\ndata: {json.dumps({'error': str(error)})}\n\n"


def json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UserError("the request must be one JSON object.")
    return value


def field(value: dict[str, Any], name: str, default: Any, allowed: range | None = None) -> Any:
    """Return a field of the default's type; a number must be in the range."""
    found = value.get(name, default)
    if type(found) is not type(default) or (allowed and found not in allowed):
        kind = f"a whole number from {allowed[0]:,} to {allowed[-1]:,}" if allowed else "text"
        raise UserError(f"the request must give {name} as {kind}.")
    return found


def first_task(data: bytes) -> tuple[Task, int]:
    """Return the first maze of a text or a file's bytes, and how many there are; a text might name a file."""
    found = read_mazes(data)
    if not found:
        raise UserError("there is no maze in this.")
    if max(found[0].task.maze.cells.shape) > MAX_SIDE:
        raise RequestError(413, f"the maze is too large; the page takes at most {MAX_SIDE} rows and columns.")
    return found[0].task, len(found)


def task_from(maze: Any) -> Task:
    """Return the task of a text in any format, or of the JSON of `maze_json`."""
    text = maze if isinstance(maze, str) else json.dumps(maze)
    task, count = first_task(text.encode(errors="replace"))
    if count > 1:
        raise UserError(f"the request holds {count} mazes; give one.")
    return task


def cell_json(task: Task, cell: Cell) -> Any:
    """Return a cell as [x, y], or a node as its label."""
    return cell[1] if isinstance(task.maze, PathStar) else [cell[1], cell[0]]


def maze_json(task: Task) -> dict[str, Any]:
    """Return a task as JSON: the open sides of its cells, or the edges of a path-star graph."""
    ends = {"start": cell_json(task, task.start), "goal": cell_json(task, task.goal)}
    if isinstance(task.maze, PathStar):
        return {"labels": task.maze.width, "edges": sorted((a[1], b[1]) for a, b in task.maze.edges()), **ends}
    return {"height": task.maze.height, "width": task.maze.width, **ends, "cells": task.maze.cells.tolist()}


def step_json(task: Task, step: TaskStep) -> dict[str, Any]:
    cells = [cell and cell_json(task, cell) for cell in step.cells]
    columns = zip(step.positions, step.tokens, np.round(step.probabilities, 4).tolist(), cells, strict=True)
    filled = [dict(zip(("position", "token", "probability", "cell"), each, strict=True)) for each in columns]
    grid_HW = step.cell_probabilities
    probabilities = None if grid_HW is None else np.round(grid_HW.astype(float), 3).tolist()
    return {"pass": step.number, "hidden": step.hidden, "filled": filled, "probabilities": probabilities}


def solution_json(solution: Solution, exact_path: list[Cell]) -> dict[str, Any]:
    """Return a solution, compared with the path that the deterministic A* stores."""
    task, path = solution.task, solution.path
    return {
        "path": path and [cell_json(task, cell) for cell in path],
        "exact": path == exact_path,
        "valid": solution.is_valid,
        "shortest": solution.is_shortest,
        "failure": None if solution.is_shortest else classify(task, exact_path, path),
        "verdict": solution.verdict,
        "passes": solution.passes,
        "ms": round(1000 * solution.seconds, 2),
        "exact_path": [cell_json(task, cell) for cell in exact_path],
        "steps": [step_json(task, step) for step in solution.steps],
    }
