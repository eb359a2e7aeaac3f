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
    if not 0 <= port <= 65535:
        raise UsageError(f"there is no port {port}; use 0 to 65535.")
    if (solves is not None and solves < 1) or not 0 < seconds <= 3600:
        raise UsageError("--solves must be 1 or more, and --seconds a number above 0 and up to 3600.")
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

    from clew.web.app import App, Settings

    local = Settings()
    # Another address may be reached under names that are not known here.
    hosts = local.hosts if host in ("127.0.0.1", "localhost", "::1") else ("*",)
    app = App(Settings(runs, results, hosts, solves or local.workers, seconds=seconds), warm=True)
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{listener.getsockname()[1]}/  (Ctrl-C to stop)", flush=True)

    class Server(uvicorn.Server):
        def handle_exit(self, *arguments: Any) -> None:
            app.stop()
            super().handle_exit(*arguments)

    # Requests that are open at Ctrl-C have one second to end.
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="off")
    Server(config).run(sockets=[listener])
