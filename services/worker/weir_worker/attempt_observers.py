"""Those who are told of every attempt: metrics, traces, logs, reports."""

from typing import Protocol

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.telemetry.logs import get_logger
from weir_worker.engine.events import Terminal
from weir_worker.running_attempt import RunningAttempt

_log = get_logger(__name__)


class AttemptObserver(Protocol):
    """Told of every attempt; must not block."""

    def attempt_started(self, attempt: RunningAttempt) -> None:
        """The engine has been told to run it."""

    def attempt_ended(
        self, attempt: RunningAttempt, terminal: Terminal, record: TerminalRecord
    ) -> None:
        """It has ended and its record is kept."""

    def attempt_refused(
        self, spec: GenerationSpec, record: TerminalRecord, *, recorded: bool
    ) -> None:
        """A start was refused before it reached the engine.

        `recorded` tells whether this is the end of the attempt: a second start of an attempt
        that runs is refused and ends nothing.
        """


class AttemptObservers:
    """Tells all of them; a fault of one is logged and costs nobody anything."""

    def __init__(self) -> None:
        self._observers: list[AttemptObserver] = []

    def add(self, observer: AttemptObserver) -> None:
        """Adds one, to be told of everything from now on."""
        self._observers.append(observer)

    def started(self, attempt: RunningAttempt) -> None:
        """See `AttemptObserver`."""
        for observer in self._observers:
            try:
                observer.attempt_started(attempt)
            except Exception as error:
                _log_fault(error)

    def ended(self, attempt: RunningAttempt, terminal: Terminal, record: TerminalRecord) -> None:
        """See `AttemptObserver`."""
        for observer in self._observers:
            try:
                observer.attempt_ended(attempt, terminal, record)
            except Exception as error:
                _log_fault(error)

    def refused(self, spec: GenerationSpec, record: TerminalRecord, *, recorded: bool) -> None:
        """See `AttemptObserver`."""
        for observer in self._observers:
            try:
                observer.attempt_refused(spec, record, recorded=recorded)
            except Exception as error:
                _log_fault(error)


def _log_fault(error: Exception) -> None:
    _log.error("observer_failed", exc_info=error)
