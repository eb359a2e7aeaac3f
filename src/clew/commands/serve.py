"""`clew serve`: the page to draw mazes and watch models solve them."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from clew.errors import UsageError, UserError


def serve(
    *,
    host: str = "127.0.0.1",  # the address to listen on; another one than 127.0.0.1 lets other machines in
    port: int = 8765,  # the port to listen on; 0 takes a free one
    runs: Path | None = None,  # a folder of runs whose models and curves are shown
    results: Path = Path("results"),  # the folder of measured results that /results shows
    solves: int | None = None,  # how many mazes are solved at once; by default one for each core
    seconds: float = 30.0,  # the longest that one solve may take
) -> None:
    """Serve a local page to draw mazes and watch models solve them.

    For example: clew serve --runs runs
    """
    for option, value, low, high in (
        ("port", port, 0, 65535),
        ("solves", solves, 1, 1000),
        ("seconds", seconds, 1, 3600),
    ):
        if value is not None and not low <= value <= high:
            raise UsageError(f"--{option} cannot be {value:g}; use {low} to {high}.")
    if runs is not None and not runs.is_dir():
        raise UsageError(f"the folder {runs} does not exist; give the folder that holds your runs.")
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise UserError("the page needs starlette and uvicorn; install them with `pip install 'clew[web]'`.") from None

    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot listen on {host} port {port}: {reason}; use another --port or --host.") from None

    from clew.web.app import Settings, create_app

    local = Settings()
    # Another address may be reached under names that are not known here.
    hosts = local.hosts if host in ("127.0.0.1", "localhost", "::1") else ("*",)
    app = create_app(Settings(runs, results, hosts, solves or local.workers, seconds=seconds), warm=True)
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{listener.getsockname()[1]}/  (Ctrl-C to stop)", flush=True)

    class Server(uvicorn.Server):
        def handle_exit(self, *arguments: Any) -> None:
            app.stop()
            super().handle_exit(*arguments)

    # Requests that are open at Ctrl-C have one second to end.
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="off")
    Server(config).run(sockets=[listener])
