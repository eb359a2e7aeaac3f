"""Start the page with uvicorn."""

from __future__ import annotations

import socket

import uvicorn

from clew.errors import UserError
from clew.web.app import Settings, create_app


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until Ctrl-C; requests that are open then have one second to end."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot listen on {host} port {port}: {reason}; use another --port or --host.") from None
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{listener.getsockname()[1]}/  (Ctrl-C to stop)", flush=True)
    config = uvicorn.Config(create_app(settings), log_level="warning", timeout_graceful_shutdown=1, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])
