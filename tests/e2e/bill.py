"""The rows of the ledger, as a test compares them with the account."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.e2e.deployment import Deployment
from weir_ratelimiter.domain.change import Change, EventKind, LedgerEvent
from weir_ratelimiter.store import frames


@dataclass(frozen=True)
class Row:
    """One row; differences are signed."""

    kind: EventKind
    reservation_id: str
    request_id: str
    tenant: str
    outcome: int
    exact: bool
    requests: int
    prompt: int
    cached: int
    completion: int
    nanos: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


async def bill(stack: Deployment) -> list[Row]:
    """Every row, in the order in which they were written."""
    return [_row(event) for event in _events(stack)]


def _events(stack: Deployment) -> Iterable[LedgerEvent]:
    latest = max((stack.state / "journal").glob("journal-*.wj"))
    for _, frame in frames.decode(latest.read_bytes(), str(latest)):
        event = frame.event if isinstance(frame, frames.EventRow | Change) else None
        if event is not None:
            yield event


def _row(event: LedgerEvent) -> Row:
    charged, before = event.charged, event.previous
    return Row(
        kind=event.kind,
        reservation_id=event.reservation_id,
        request_id=event.request_id,
        tenant=event.subject.tenant_id,
        outcome=event.outcome,
        exact=event.quality == 1,
        requests=event.requests,
        prompt=charged.prompt_tokens - before.prompt_tokens,
        cached=charged.cached_prompt_tokens - before.cached_prompt_tokens,
        completion=charged.completion_tokens - before.completion_tokens,
        nanos=event.amount_nanos,
    )
