"""The entry point of `clew` and of `python -m clew`.

Ctrl-C prints one line and exits with 130 at any moment after the first line of this module, which is why it imports
nothing before it handles the signal. The handler ends the process itself, because an exception raised inside the import
of a large library or inside compiled code is lost there or ends in pages of traceback. Training replaces the handler
while it runs.
"""

import os
import sys


def main() -> None:
    """Run the command of this process's arguments, and exit."""
    from clew.cli import run

    code = run(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done; Python would restore the handler that kills
    sys.exit(code)


def stop(number: int, frame: object = None) -> None:
    """Remove half-written files, print one line and end this process."""
    # The module may not be imported yet, or only in part.
    getattr(sys.modules.get("clew.files"), "discard_unfinished", lambda: None)()
    show_cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar hides it
    os.write(2, show_cursor + b"clew: stopped.\n")
    os._exit(128 + number)


try:
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # ignored under nohup
        signal.signal(signal.SIGINT, stop)
except KeyboardInterrupt:  # a moment before the handler was there
    stop(2)

if __name__ == "__main__":
    main()
