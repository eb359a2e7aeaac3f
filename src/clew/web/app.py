"""The web application: pages, API and their checks.

    app = create_app(Settings(runs=Path("runs")))

Every error is JSON with one sentence: status 400 for a bad request, 404 for an unknown name, 413 for what is too
large, 503 with Retry-After when the server is busy. docs/web.md describes the API.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.data.readers import read_maze
from clew.decoding.cells import loop_probabilities
from clew.decoding.decode import TaskStep, split_steps
from clew.decoding.state import Step
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import Path as CellPath
from clew.mazes.maze import Task, TaskBatch
from clew.mazes.path_star import star_shape
from clew.mazes.solvers import astar
from clew.models.cell_network import CellNetwork
from clew.solution import Solution
from clew.web.models import ModelStore
from clew.web.payloads import (
    MAX_BODY_BYTES,
    MAX_SIDE,
    Busy,
    NotFound,
    TooLarge,
    check_size,
    json_object,
    maze_json,
    number_field,
    solution_json,
    step_json,
    task_from,
    text_field,
)
from clew.web.reports import result_json, run_json, run_rows
from clew.web.solving import Emit, Finished, SolveQueue

STATIC = Path(__file__).parent / "static"
MAX_LOOP_FRAMES = 60
FAMILIES = {
    "dfs": "DFS mazes (the paper)",
    "astar": "A* mazes (the paper)",
    "wilson": "Wilson mazes",
    "kruskal": "Kruskal mazes",
    "percolation": "Percolation mazes",
    "path-star-2x4": "Path-star graphs, 2 arms of 4",
    "path-star-5x4": "Path-star graphs, 5 arms of 4",
}
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Settings:
    """What `clew serve` was asked for."""

    runs: Path | None = None
    results: Path = Path("results")
    # Names under which the page may be requested, each with and without the port; "*" allows every name.
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    workers: int = max(1, os.cpu_count() or 1)
    max_waiting: int = 64
    seconds: float = 30.0


def create_app(settings: Settings | None = None) -> ASGIApp:
    """Return the application with its checks around it."""
    settings = settings or Settings()
    api = Api(settings)
    app = Starlette(
        routes=[
            Route("/", page("index.html")),
            Route("/runs", page("runs.html")),
            Route("/results", page("results.html")),
            Route("/api/models", api.models),
            Route("/api/generate", api.generate, methods=["POST"]),
            Route("/api/read", api.read, methods=["POST"]),
            Route("/api/solve", api.solve, methods=["POST"]),
            Route("/api/loops", api.loops, methods=["POST"]),
            Route("/api/animate", api.animate, methods=["POST"]),
            Route("/api/runs", api.runs),
            Route("/api/runs/{name:path}", api.run),
            Route("/api/results", api.results),
            Route("/api/results/{name}.png", api.picture),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={
            HTTPException: lambda request, error: failure(error.status_code, str(error.detail)),
            UserError: lambda request, error: failure(status_of(error), str(error)),
            OSError: lambda request, error: failure(400, "a file that this needs cannot be read."),
        },
    )
    return Checks(app, settings.hosts)


def page(name: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a static page."""

    async def endpoint(request: Request) -> Response:
        return FileResponse(STATIC / name, headers={"Cache-Control": "no-cache"})

    return endpoint


def failure(status: int, sentence: str) -> JSONResponse:
    """Return an error as JSON."""
    headers = {"Retry-After": "2"} if status == 503 else {}
    return JSONResponse({"error": sentence}, status, headers)


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error."""
    kinds: tuple[tuple[type[Exception], int], ...] = ((NotFound, 404), (TooLarge, 413), (Busy, 503))
    return next((status for kind, status in kinds if isinstance(error, kind)), 400)


class Checks:
    """Refuse other hosts and origins and large bodies, add security headers, and turn surprises into status 500."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                message = dict(message) | {"headers": [*message.get("headers", []), *extra]}
            await send(message)

        headers = Headers(scope=scope)
        if refusal := self.refusal(headers):
            await failure(*refusal)(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Return status and sentence if a request must not be served."""
        if not self.is_allowed(headers.get("host", "")):
            return 400, "this server does not answer under that host name."
        origin = headers.get("origin")
        if origin is not None and not self.is_allowed(origin.partition("://")[2]):
            return 400, "requests from other sites are not answered."
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            return 413, f"the request is larger than {MAX_BODY_BYTES:,} bytes."
        return None

    def is_allowed(self, host: str) -> bool:
        """Whether a host, with or without a port, is one of those that are served."""
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdigit():
            name = host
        return "*" in self.hosts or name.lower() in self.hosts


async def body_of(request: Request) -> bytes:
    """Return the body of a request, at most MAX_BODY_BYTES."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise TooLarge(f"the request is larger than {MAX_BODY_BYTES:,} bytes.")
    except ClientDisconnect:
        raise UserError("the client closed the connection.") from None
    return body


class Api:
    """The endpoints below /api."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = ModelStore(settings.runs)
        self.queue = SolveQueue(settings.workers, settings.max_waiting, settings.seconds)

    async def models(self, request: Request) -> Response:
        """The models with their decoders, and the maze families."""
        models = await run_in_threadpool(self.store.listed)
        families = [{"name": name, "title": title} for name, title in FAMILIES.items()]
        return JSONResponse({"models": models, "families": families})

    async def generate(self, request: Request) -> Response:
        """A maze of a family, of the test split."""
        value = json_object(await body_of(request))
        family = text_field(value, "family", "dfs")
        seed = number_field(value, "seed", 0, 2**63 - 1, 0)
        if star := star_shape(family):
            height, width = 1, number_field(value, "labels", star.nodes, 1000, star.nodes)
            if star.nodes > 1000:
                raise TooLarge("a path-star graph on the page has at most 1,000 nodes.")
        else:
            height, width = (number_field(value, name, 2, MAX_SIDE, 10) for name in ("height", "width"))
        batch = await run_in_threadpool(
            lambda: generate(family, height, width, seed=seed, first=0, count=1, split="test", workers=1)
        )
        return JSONResponse({"family": family, **maze_json(batch[0][0])})

    async def read(self, request: Request) -> Response:
        """The maze of a pasted text or of a file's bytes."""
        body = await body_of(request)
        if request.headers.get("content-type", "").startswith("application/json"):
            task = await run_in_threadpool(task_from, text_field(json_object(body), "text"))
        else:
            task = await run_in_threadpool(read_maze, body)
            check_size(task)
        return JSONResponse(maze_json(task))

    async def solve(self, request: Request) -> Response:
        """A model's solution of a maze: one JSON object, or one event a step."""
        work = self.solving(json_object(await body_of(request)))
        if "text/event-stream" in request.headers.get("accept", ""):
            events = self.queue.run(work)
            first = await anext(events)  # an error before the first step has a status of its own
            return StreamingResponse(event_stream(first, events), media_type="text/event-stream")
        return JSONResponse(await self.finish(request, work))

    async def loops(self, request: Request) -> Response:
        """The probability of every cell after each loop of the first pass."""
        value = json_object(await body_of(request))
        name = text_field(value, "model")

        def work(emit: Emit) -> Any:
            model, task = self.store.load(name), task_from(value.get("maze"))
            if not isinstance(model.model, CellNetwork):
                raise UserError(f"the model {name} has no loops.")
            loops_LHW = loop_probabilities(model.model, task)
            count = len(loops_LHW)
            kept = np.unique(np.linspace(0, count - 1, min(count, MAX_LOOP_FRAMES)).round().astype(int))
            return {"loops": np.round(loops_LHW[kept], 2).tolist(), "numbers": (kept + 1).tolist()}

        return JSONResponse(await self.finish(request, work))

    async def animate(self, request: Request) -> Response:
        """The solution as an animated GIF."""
        value = json_object(await body_of(request))

        def work(emit: Emit) -> bytes:
            from clew.viz.animation import animate  # pillow, only when it is needed

            task = task_from(value.get("maze"))
            solution, _ = self.solution(task, value, emit)
            loops = self.store.load(text_field(value, "model")).loop_probabilities(task)
            kept = loops[:: max(1, len(loops) // MAX_LOOP_FRAMES)]
            with tempfile.TemporaryDirectory() as folder:
                animate(solution, Path(folder) / "maze.gif", loops=kept)
                return (Path(folder) / "maze.gif").read_bytes()

        return Response(await self.finish(request, work), media_type="image/gif")

    async def runs(self, request: Request) -> Response:
        """The runs below --runs."""
        folder = self.settings.runs
        rows = await run_in_threadpool(run_rows, self.store)
        return JSONResponse({"folder": None if folder is None else str(folder), "runs": rows})

    async def run(self, request: Request) -> Response:
        """Config and curves of one run."""
        run = self.store.run(request.path_params["name"])
        return JSONResponse(await run_in_threadpool(run_json, run))

    async def results(self, request: Request) -> Response:
        """Tables and verdicts of the studies that were run."""
        return JSONResponse(await run_in_threadpool(result_json, self.settings.results))

    async def picture(self, request: Request) -> Response:
        """The figure of a study."""
        name = request.path_params["name"]
        pictures = {file.parent.name: file for file in sorted(self.settings.results.glob("*/*.png"))}
        if name not in pictures:
            raise NotFound(f"there is no figure of {name!r}; GET /api/results lists the studies.")
        return FileResponse(pictures[name])

    def solving(self, value: dict[str, Any]) -> Callable[[Emit], Any]:
        """Return the work of a solve: emits steps as JSON, returns the solution as JSON."""

        def work(emit: Emit) -> Any:
            task = task_from(value.get("maze"))
            solution, exact_path = self.solution(task, value, lambda step: emit(step_json(task, step)))
            return solution_json(solution, exact_path)

        return work

    def solution(
        self, task: Task, value: dict[str, Any], on_step: Callable[[TaskStep], None]
    ) -> tuple[Solution, CellPath]:
        """Return the model's solution and the path of the deterministic A*."""
        model = self.store.load(text_field(value, "model"))
        decoder = text_field(value, "decoder", "") or None
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

    async def finish(self, request: Request, work: Callable[[Emit], Any]) -> Any:
        """Return the value of a piece of work, which is stopped when the client leaves."""
        async for event in self.queue.run(work):
            if isinstance(event, Finished):
                return event.value
            if await request.is_disconnected():
                raise UserError("the client closed the connection.")
        raise AssertionError("a queue ends with Finished or an error")


async def event_stream(first: Any, events: AsyncIterator[Any]) -> AsyncIterator[str]:
    """Yield server-sent events: `step` for each step, then `result`, or `error`."""
    event = first
    try:
        while True:
            name, value = ("result", event.value) if isinstance(event, Finished) else ("step", event)
            yield f"event: {name}\ndata: {json.dumps(value)}\n\n"
            if isinstance(event, Finished):
                return
            event = await anext(events)
    except UserError as error:
        yield f"event: error\ndata: {json.dumps({'error': str(error)})}\n\n"
