"""Requests of one tenant for one model within one interval."""

from weir.common.v1.lifecycle_pb2 import Outcome
from weir.gateway.v1.history_service_pb2 import OutcomeCount, RefusalCount, RequestFlow
from weir_core.errors import LimitExceeded, WeirError
from weir_core.telemetry.metrics import OTHER
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.request_facts import RequestFacts
from weir_gateway.history.distribution import Tally

_OUTCOMES = {number: name.removeprefix("OUTCOME_").lower() for name, number in Outcome.items()}
_MOST_REFUSALS = 16

_Refusal = tuple[str, str, str, str]


class FlowTally:
    """Counts; see the message `RequestFlow`.

    Attributes:
        in_flight, queued: of the end of the interval.
        output_tokens: received so far.
    """

    __slots__ = (
        "_arrivals",
        "_cached",
        "_ended",
        "_prompt",
        "_refused",
        "_tallies",
        "in_flight",
        "output_tokens",
        "queued",
    )

    def __init__(self) -> None:
        self._arrivals = 0
        self._prompt = 0
        self._cached = 0
        self._ended: dict[str, int] = {}
        self._refused: dict[_Refusal, int] = {}
        self._tallies: dict[str, Tally] = {}
        self.output_tokens = 0
        self.in_flight = 0
        self.queued = 0

    def arrived(self) -> None:
        """One was accepted."""
        self._arrivals += 1

    def refused(self, error: WeirError) -> None:
        """One was refused, by one limit or several, or for another reason."""
        violations = error.violations if isinstance(error, LimitExceeded) else ()
        if not violations:
            self._count_refusal((str(error.reason), "", "", ""))
        for one in violations:
            self._count_refusal((str(error.reason), one.limit_id, one.limit_type, one.knob))

    def ended(self, facts: RequestFacts, ending: Ending) -> None:
        """One has ended."""
        outcome, usage = _OUTCOMES[ending.outcome], ending.usage
        self._ended[outcome] = self._ended.get(outcome, 0) + 1
        if usage.prompt_tokens:
            self._prompt += usage.prompt_tokens
            self._cached += usage.cached_prompt_tokens
            self._add("prompt_length", usage.prompt_tokens)
            self._add("output_length", usage.completion_tokens)
        if facts.queued_us and facts.arrived_us:
            self._add("intake_time", (facts.queued_us - facts.arrived_us) / 1e6)
        if facts.first_token_us:
            self._times(facts, usage.completion_tokens)

    def message(self, tenant_id: str, model: str) -> RequestFlow:
        """Everything that was counted."""
        return RequestFlow(
            tenant_id=tenant_id,
            model=model,
            arrivals=self._arrivals,
            ended=[OutcomeCount(outcome=name, count=n) for name, n in self._ended.items()],
            refused=[_refusal(key, n) for key, n in self._refused.items()],
            prompt_tokens=self._prompt,
            cached_prompt_tokens=self._cached,
            output_tokens=self.output_tokens,
            in_flight=self.in_flight,
            queued=self.queued,
            **{name: tally.message() for name, tally in self._tallies.items()},
        )

    def _times(self, facts: RequestFacts, tokens: int) -> None:
        first_us = facts.first_token_us
        queued_s = facts.queue_us / 1e6
        self._add("ttft", (first_us - facts.arrived_us) / 1e6)
        self._add("queue_time", queued_s)
        self._add("prefill_time", (first_us - facts.queued_us) / 1e6 - queued_s)
        if tokens > 1 and facts.ended_us > first_us:
            self._add("speed", (tokens - 1) * 1e6 / (facts.ended_us - first_us))

    def _add(self, name: str, value: float) -> None:
        tally = self._tallies.get(name)
        if tally is None:
            tally = self._tallies[name] = Tally()
        tally.add(value)

    def _count_refusal(self, key: _Refusal) -> None:
        if key not in self._refused and len(self._refused) >= _MOST_REFUSALS:
            key = (OTHER, "", "", "")
        self._refused[key] = self._refused.get(key, 0) + 1


def _refusal(key: _Refusal, count: int) -> RefusalCount:
    reason, limit_id, limit_type, knob = key
    return RefusalCount(
        reason=reason, limit_id=limit_id, limit_type=limit_type, knob=knob, count=count
    )
