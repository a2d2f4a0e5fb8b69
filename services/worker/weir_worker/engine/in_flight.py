"""The attempts without a terminal, and where their events go."""

import logging
from collections.abc import Callable

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import StepOutput
from weir_worker.engine.load import Load
from weir_worker.engine.ticket import EngineEvent, EventSink, Ticket

logger = logging.getLogger(__name__)

OutputListener = Callable[[StepOutput], None]


class InFlight:
    """Delivers frames to sinks and guarantees each attempt its one terminal.

    Attributes:
        load: gauges of the last frame.
    """

    def __init__(self, clock: Clock, on_output: OutputListener | None) -> None:
        self.load = Load()
        self._clock = clock
        self._on_output = on_output
        self._tickets: dict[tuple[str, int], Ticket] = {}
        self._newest: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def holds(self, request_id: str, attempt: int) -> bool:
        """Whether the attempt has no terminal yet."""
        return (request_id, attempt) in self._tickets

    def add(self, submit: Submit, sink: EventSink | None) -> None:
        """Expect the events of an attempt.

        Raises:
            WeirError: STALE_ATTEMPT when this or a newer attempt is in flight.
        """
        newest = self._newest.get(submit.request_id, 0)
        if submit.attempt <= newest:
            message = f"attempt {submit.attempt} is not newer than attempt {newest}, which runs"
            raise WeirError(Reason.STALE_ATTEMPT, message)
        self._newest[submit.request_id] = submit.attempt
        self._tickets[submit.request_id, submit.attempt] = Ticket(submit, sink)

    def dispatch(self, output: StepOutput) -> None:
        """Deliver a frame: to the sinks of its attempts, then whole to the listener."""
        self.load = output.load
        tickets = self._tickets
        for progress in output.progress:
            if ticket := tickets.get((progress.request_id, progress.attempt)):
                ticket.note(progress)
        for prefilled in output.prefilled:
            if ticket := tickets.get((prefilled.request_id, prefilled.attempt)):
                ticket.note(prefilled)
                _deliver(ticket, prefilled)
        for delta in output.deltas:
            if ticket := tickets.get((delta.request_id, delta.attempt)):
                ticket.completion_tokens += len(delta.token_ids)
                _deliver(ticket, delta)
        for terminal in output.terminals:
            if ticket := self._remove(terminal.request_id, terminal.attempt):
                _deliver(ticket, terminal)
        self._tell(output)

    def lose(self, message: str) -> None:
        """End every attempt, since the engine cannot: WORKER_LOST with the usage known."""
        now_us = self._clock.now_us()
        terminals = [
            ticket.lost(Reason.WORKER_LOST, message, now_us) for ticket in self._tickets.values()
        ]
        self.dispatch(StepOutput([], [], terminals, [], Load()))

    def _remove(self, request_id: str, attempt: int) -> Ticket | None:
        if self._newest.get(request_id) == attempt:
            del self._newest[request_id]
        return self._tickets.pop((request_id, attempt), None)

    def _tell(self, output: StepOutput) -> None:
        if self._on_output is None:
            return
        try:
            self._on_output(output)
        except Exception:
            logger.exception("the listener of engine output failed")


def _deliver(ticket: Ticket, event: EngineEvent) -> None:
    if ticket.sink is None:
        return
    try:
        ticket.sink(event)
    except Exception:
        logger.exception("a sink of engine events failed")
