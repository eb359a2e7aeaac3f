"""The web application: pages, API and their checks.

    app = create_app(Settings(runs=Path("runs")))

docs/web.md describes the API. Every error is JSON with one sentence.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
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

from clew.data.readers import read_mazes
from clew.decoding.cells import CellWalk, loop_probabilities
from clew.decoding.codec import Step
from clew.decoding.decode import TaskStep, parse_decoder, split_steps
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.generators import star_shape
from clew.mazes.maze import Path as CellPath
from clew.mazes.maze import Task, TaskBatch
from clew.mazes.solvers import astar
from clew.registry import registered_names, shipped_models
from clew.solution import Solution
from clew.viz.animation import shown_loops
from clew.web.models import (
    MAX_SIDE,
    ModelStore,
    check_size,
    json_object,
    maze_json,
    number_field,
    result_json,
    run_json,
    run_row,
    solution_json,
    step_json,
    task_from,
    text_field,
)
from clew.web.solving import Emit, Finished, RequestError, SolveQueue

STATIC = Path(__file__).parent / "static"
PAGES = {"/": STATIC / "index.html", "/runs": STATIC / "runs.html", "/results": STATIC / "results.html"}
FIRST_MODELS = {"cells-dfs", "cells-astar"}
MAX_BODY_BYTES = 1_000_000
FAMILIES = {
    "dfs": "DFS mazes (the paper)",
    "astar": "A* mazes (the paper)",
    "wilson": "Wilson mazes",
    "kruskal": "Kruskal mazes",
    "percolation": "Percolation mazes",
    "path-star-2x4": "Path-star graphs, 2 arms of 4",
    "path-star-5x4": "Path-star graphs, 5 arms of 4",
}
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


def create_app(settings: Settings, warm: bool = False) -> App:
    """Return the application; if `warm`, load models and compile kernels first, so that a first visit is fast."""
    api = Api(settings)
    posts = (api.generate, api.read, api.solve, api.loops, api.animate)
    gets = {"models": api.models, "runs": api.runs, "runs/{name:path}": api.run, "results": api.results}
    gets["results/{name}.png"] = api.picture
    routes = [
        *(Route(path, lambda request: FileResponse(PAGES[request.url.path])) for path in PAGES),
        *(Route(f"/api/{each.__name__}", each, methods=["POST"]) for each in posts),
        *(Route(f"/api/{path}", each) for path, each in gets.items()),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: Any = {
        HTTPException: _http_failure,
        UserError: lambda request, error: _failure(getattr(error, "status", 400), str(error)),
        OSError: lambda request, error: _failure(400, "a file that this needs cannot be read."),
        Exception: lambda request, error: _failure(500, "the server failed; its terminal says why."),
    }
    if warm:
        api.warm_up()
    return App(Starlette(routes=routes, exception_handlers=handlers), settings.hosts, api.queue.stopping.set)


def _failure(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, {"Retry-After": "2"} if status == 503 else {})


def _http_failure(request: Request, error: Any) -> JSONResponse:
    if error.status_code == 404:
        return _failure(404, f"there is no {request.url.path!r} here.")
    return _failure(400, f"{request.method} is not possible for {request.url.path!r}.")


class App:
    """The ASGI application: refuse other hosts and origins, and add headers. `stop()` ends all solves."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...], stop: Callable[[], None]) -> None:
        self.app, self.hosts, self.stop = app, hosts, stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = dict(message) | {"headers": [*message.get("headers", []), *extra]}
            await send(message)

        refusal = self.refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (_failure(400, refusal) if refusal else self.app)(scope, receive, send_with_headers)

    def refusal(self, headers: Headers) -> str | None:
        """Return a sentence if a request must not be served."""
        host = headers.get("host", "")
        name, colon, port = host.rpartition(":")
        if "*" not in self.hosts and (name if colon and port.isdigit() else host).lower() not in self.hosts:
            return "this server does not answer under that host name."
        if (origin := headers.get("origin")) is not None and origin.partition("://")[2].lower() != host.lower():
            return "requests from other sites are not answered."
        return None


async def _body(request: Request) -> bytes:
    """Return the body of a request, at most MAX_BODY_BYTES."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise RequestError(413, f"the request is larger than {MAX_BODY_BYTES:,} bytes.")
    except ClientDisconnect:
        raise UserError("the client closed the connection.") from None
    return body


class Api:
    """The endpoints below /api."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = ModelStore(settings.runs)
        self.queue = SolveQueue(settings.workers, settings.max_waiting, settings.seconds)

    def warm_up(self) -> None:
        """Do once what a first visit does."""
        self.store.listed()
        task = generate("dfs", 10, 10, seed=0, first=0, count=1, split="test", workers=1)[0][0]
        for name in FIRST_MODELS & shipped_models().keys():
            self.solution(task, {"model": name}, lambda step: None)

    async def models(self, request: Request) -> Response:
        """The models with their decoders, and the maze families: built in, registered, and those of the models."""
        models = await run_in_threadpool(self.store.listed)
        names = [*FAMILIES, *registered_names("family"), *(model["family"] for model in models)]
        families = [{"name": name, "title": FAMILIES.get(name, name)} for name in dict.fromkeys(names)]
        return JSONResponse({"models": models, "families": families})

    async def generate(self, request: Request) -> Response:
        """A maze of a family, of the test split."""
        value = json_object(await _body(request))
        family = text_field(value, "family", "dfs")
        seed = number_field(value, "seed", 0, 2**63 - 1, 0)
        if star := star_shape(family):
            height, width = 1, star.nodes
            if width > 1000:
                raise RequestError(413, "a path-star graph on the page has at most 1,000 nodes.")
        else:
            height, width = (number_field(value, name, 2, MAX_SIDE, 10) for name in ("height", "width"))
        batch = await run_in_threadpool(
            lambda: generate(family, height, width, seed=seed, first=0, count=1, split="test", workers=1)
        )
        return JSONResponse({"family": family, **maze_json(batch[0][0])})

    async def read(self, request: Request) -> Response:
        """The first maze of a pasted text or of a file's bytes, and how many there are."""
        body = await _body(request)
        if request.headers.get("content-type", "").startswith("application/json"):
            body = text_field(json_object(body), "text").encode()  # not as text, which may be the name of a file
        found = await run_in_threadpool(read_mazes, body)
        if not found:
            raise UserError("there is no maze in this.")
        return JSONResponse({"count": len(found), **maze_json(check_size(found[0].task))})

    async def solve(self, request: Request) -> Response:
        """A model's solution of a maze: one JSON object, or one event a step."""
        value = json_object(await _body(request))

        def work(emit: Emit) -> Any:
            task = task_from(value.get("maze"))
            return solution_json(*self.solution(task, value, lambda step: emit(step_json(task, step))))

        if "text/event-stream" in request.headers.get("accept", ""):
            events = self.queue.run(work, request.is_disconnected)
            first = await anext(events)  # an error before the first step has a status of its own
            return StreamingResponse(_event_stream(first, events), media_type="text/event-stream")
        return JSONResponse(await self.finish(request, work))

    async def loops(self, request: Request) -> Response:
        """The probability of every cell after each loop of the first pass."""
        value = json_object(await _body(request))
        name = text_field(value, "model")

        def work(emit: Emit) -> Any:
            loops = loop_probabilities(self.store.load(name).model, task_from(value.get("maze")))
            kept = shown_loops(len(loops))
            return {"loops": [np.round(loops[i], 2).tolist() for i in kept], "numbers": [i + 1 for i in kept]}

        return JSONResponse(await self.finish(request, work))

    async def animate(self, request: Request) -> Response:
        """The solution as an animated GIF."""
        value = json_object(await _body(request))

        def work(emit: Emit) -> bytes:
            solution, _ = self.solution(task_from(value.get("maze")), value, emit)
            with tempfile.TemporaryDirectory() as folder:
                solution.animate(Path(folder) / "maze.gif")
                return (Path(folder) / "maze.gif").read_bytes()

        return Response(await self.finish(request, work), media_type="image/gif")

    async def runs(self, request: Request) -> Response:
        folder = self.settings.runs
        rows = await run_in_threadpool(lambda: [run_row(name, run) for name, run in self.store.runs().items()])
        return JSONResponse({"folder": None if folder is None else str(folder), "runs": rows})

    async def run(self, request: Request) -> Response:
        name = request.path_params["name"]
        if not (run := self.store.runs().get(name)):
            raise RequestError(404, f"there is no run {name!r}; GET /api/runs lists them.")
        return JSONResponse(await run_in_threadpool(run_json, run))

    async def results(self, request: Request) -> Response:
        """Tables and verdicts of the studies that were run."""
        return JSONResponse(await run_in_threadpool(result_json, self.settings.results))

    async def picture(self, request: Request) -> Response:
        name = request.path_params["name"]
        pictures = {file.parent.name: file for file in sorted(self.settings.results.glob("*/*.png"))}
        if name not in pictures:
            raise RequestError(404, f"there is no figure of {name!r}; GET /api/results lists the studies.")
        return FileResponse(pictures[name])

    def solution(
        self, task: Task, value: dict[str, Any], on_step: Callable[[TaskStep], None]
    ) -> tuple[Solution, CellPath]:
        """Return the model's solution and the path of the deterministic A*."""
        model = self.store.load(text_field(value, "model"))
        decoder = text_field(value, "decoder", "") or None
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

    async def finish(self, request: Request, work: Callable[[Emit], Any]) -> Any:
        """Return the value of a function, which is stopped when the client disconnects."""
        async for event in self.queue.run(work, request.is_disconnected):
            last = event
        return last.value


async def _event_stream(first: Any, events: AsyncGenerator[Any, None]) -> AsyncIterator[str]:
    """Yield server-sent events: `step` for each step, then `result`, or `error`."""

    def text(name: str, value: Any) -> str:
        return f"event: {name}\ndata: {json.dumps(value)}\n\n"

    async with aclosing(events):
        try:
            event = first
            while not isinstance(event, Finished):
                yield text("step", event)
                event = await anext(events)
            yield text("result", event.value)
        except UserError as error:
            yield text("error", {"error": str(error)})
