"""The first signal is noted, the second one is obeyed."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from clew.training.signals import handle_stop_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_first_noted_second_obeyed(number: int) -> None:
    # A shell that starts the suite in the background, or with nohup, makes it ignore some signals.
    ignored = signal.getsignal(number) == signal.SIG_IGN
    if ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with handle_stop_signals() as stop:
        assert not stop.signal
        os.kill(os.getpid(), number)
        assert stop.signal == number
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
        if number == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    if ignored:
        signal.signal(number, signal.SIG_IGN)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As SIGHUP is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_stop_signals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.signal
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.signal == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_trains_without_handlers() -> None:
    found = []

    def work() -> None:
        with handle_stop_signals() as stop:
            found.append(stop.signal)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0]
