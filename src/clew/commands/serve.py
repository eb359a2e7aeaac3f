"""`clew serve`: the page to draw mazes and watch models solve them."""

from __future__ import annotations

from pathlib import Path

from clew.errors import UserError


def serve(
    host: str = "127.0.0.1",
    port: int = 8765,
    runs: Path | None = None,
    results: Path = Path("results"),
    solves: int | None = None,
    seconds: float = 30.0,
) -> None:
    """Serve a local page to draw mazes and watch models solve them.

    For example: clew serve --runs runs

    Args:
        host: the address to listen on; another one than 127.0.0.1 lets other machines in.
        port: the port to listen on; 0 takes a free one.
        runs: a folder of runs whose models and curves are shown.
        results: the folder of measured results that /results shows.
        solves: how many mazes are solved at once; by default one for each core.
        seconds: the longest that one solve may take.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"there is no port {port}; use 0 to 65535.")
    if solves is not None and solves < 1:
        raise UserError(f"{solves} solves at once are impossible; use 1 or more.")
    if not 0 < seconds <= 3600:
        raise UserError(f"a time limit of {seconds} seconds is impossible; use a number above 0 and up to 3600.")
    if runs is not None and not runs.is_dir():
        raise UserError(f"the folder {runs} does not exist; give the folder that holds your runs.")
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise UserError("the page needs starlette and uvicorn; install them with `pip install 'clew[web]'`.") from None
    from clew.web.app import Settings
    from clew.web.server import serve as serve_page

    local = Settings()
    # Whoever listens on another address wants to be found there, under names that are not known here.
    hosts = local.hosts if host in ("127.0.0.1", "localhost", "::1") else ("*",)
    workers = local.workers if solves is None else solves
    serve_page(Settings(runs, results, hosts, workers, seconds=seconds), host, port)
