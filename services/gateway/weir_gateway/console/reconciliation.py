"""Whether the token account and the ledger tell the same of a tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from weir.ratelimiter.v1.ledger_service_pb2 import GetLedgerStatusResponse, UsageSum
from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir_core.errors.refusal import unit_of
from weir_gateway.console.forms.limits_json import used_units


class State(StrEnum):
    """How they compare."""

    AGREE = "agree"
    CATCHING_UP = "catching_up"
    DIFFER = "differ"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison.

    Attributes:
        what: id of the limit, or what was added up.
        window: of the calendar.
        unit: of the numbers.
        account: settled by the account, or the sum of the parts.
        held: by open reservations, which are in no ledger yet.
        ledger: what the ledger has.
        difference: of the two; 0 where they agree.
    """

    what: str
    window: str
    unit: str
    account: int
    held: int
    ledger: int
    difference: int

    @property
    def state(self) -> State:
        """Whether there is a difference."""
        return State.DIFFER if self.difference else State.AGREE


def check_window(before: LimitStatus, after: LimitStatus, charged: UsageSum) -> Check | None:
    """Compares a calendar window of the account, read before and after the ledger was.

    What was settled only grows: while requests end, the ledger's sum lies between the two.
    None where the account does not know its numbers, the window has turned meanwhile, or requests
    are counted: those that were given back count in the ledger alone.
    """
    settled = [_settled(before), _settled(after)]
    ledger = _units(before.resource, charged)
    if None in settled or ledger is None or before.window != after.window:
        return None
    low, high = sorted(value for value in settled if value is not None)
    nearest = min(max(ledger, low), high)
    return Check(
        what=after.limit_id,
        window=after.window,
        unit=unit_of(after.resource),
        account=nearest,
        held=after.held,
        ledger=ledger,
        difference=ledger - nearest,
    )


def check_parts(what: str, window: str, whole: UsageSum, parts: UsageSum) -> Check:
    """Compares a total with the sum of its parts, in tokens."""
    total, added = whole.usage.total_tokens, parts.usage.total_tokens
    return Check(what, window, "tokens", added, 0, total, total - added)


def state_of(checks: Sequence[Check], status: GetLedgerStatusResponse) -> State:
    """The whole judgement."""
    if any(check.difference for check in checks):
        return State.CATCHING_UP if status.outbox_events else State.DIFFER
    if status.outbox_error:
        return State.UNKNOWN
    return State.CATCHING_UP if status.outbox_events else State.AGREE


def sentence(state: State, checks: Sequence[Check], status: GetLedgerStatusResponse) -> str:
    """The judgement for people."""
    windows = sum(check.what.partition("/")[2] != "" for check in checks)
    compared = (
        f"{windows} calendar budget{'s' * (windows != 1)} compared"
        if windows
        else "no calendar budget is set that could be compared"
    )
    match state:
        case State.AGREE:
            return f"Everything that was settled is in the ledger, to the token; {compared}."
        case State.CATCHING_UP:
            return "Settlements are still being written to the ledger; look again in a moment."
        case State.UNKNOWN:
            return f"How far the ledger is behind is not known: {status.outbox_error}."
        case State.DIFFER:
            return (
                "Account and ledger differ. Units that an operator gave or took (AdjustLimit) "
                "count in the account alone; for anything else see docs/ledger.md."
            )


def _settled(limit: LimitStatus) -> int | None:
    used = used_units(limit)
    return None if used is None else used - limit.held


def _units(resource: str, charged: UsageSum) -> int | None:
    usage = charged.usage
    if resource.startswith("cost"):
        return charged.amount_nanos
    tokens = {
        "tokens": usage.total_tokens,
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
    }
    name = resource.partition("_per_")[0]
    return tokens.get(name)
