"""Counts requests as they come, are refused and end, by tenant and model."""

from collections.abc import Iterable

from weir.gateway.v1.history_service_pb2 import RequestFlow
from weir_core.errors import WeirError
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.live_state import State
from weir_gateway.history.flow_tally import FlowTally
from weir_gateway.history.joining import fewer

_Key = tuple[str, str]


class RequestFlows:
    """What happened since the last `take`.

    Tokens are counted as they come, though only when somebody takes: a request costs a few
    additions at its arrival and at its end, and nothing for each token.
    """

    def __init__(self) -> None:
        self._tallies: dict[_Key, FlowTally] = {}
        self._counted: dict[str, int] = {}

    def admitted(self, live: LiveRequest) -> None:
        """A request was accepted."""
        self._of(live).arrived()

    def refused(self, error: WeirError, tenant_id: str, model: str = "") -> None:
        """A request was refused; an empty tenant where it is not known who asked."""
        self._tally((tenant_id, model)).refused(error)

    def ended(self, live: LiveRequest, ending: Ending) -> None:
        """An accepted request has ended."""
        tally = self._of(live)
        before = self._counted.pop(live.id, 0)
        tally.output_tokens += max(0, ending.usage.completion_tokens - before)
        tally.ended(live.facts, ending)

    def take(self, living: Iterable[LiveRequest]) -> list[RequestFlow]:
        """Everything since the last time, with what lives now."""
        before, self._counted = self._counted, {}
        for live in living:
            self._count_live(live, before.get(live.id, 0))
        taken, self._tallies = self._tallies, {}
        return fewer([tally.message(*key) for key, tally in taken.items()])

    def _count_live(self, live: LiveRequest, before: int) -> None:
        tally, facts = self._of(live), live.facts
        tally.in_flight += 1
        tally.queued += live.state is State.QUEUED
        if facts.output_tokens or before:
            tally.output_tokens += max(0, facts.output_tokens - before)
            self._counted[live.id] = max(before, facts.output_tokens)

    def _of(self, live: LiveRequest) -> FlowTally:
        subject = live.prepared.subject
        return self._tally((subject.tenant_id, subject.model))

    def _tally(self, key: _Key) -> FlowTally:
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = FlowTally()
        return tally
