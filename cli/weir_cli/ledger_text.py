"""The ledger for a person: sums as a table, how far it is behind as lines."""

from collections.abc import Sequence

from weir.ratelimiter.v1.ledger_service_pb2 import GetLedgerStatusResponse, UsageSum
from weir_cli.output import table

_NANO = 10**9
_NUMBERS = ("requests", "prompt", "cached", "completion", "amount")


def amount_text(nanos: int) -> str:
    """Nano-units in units, exactly: `0.000000057`, `-12.5`, `3`."""
    whole, rest = divmod(abs(nanos), _NANO)
    digits = f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
    return f"-{digits}" if nanos < 0 else digits


def usage_text(by: Sequence[str], sums: Sequence[UsageSum]) -> str:
    """Sums as a table."""
    rows = [(*by, *_NUMBERS)]
    rows += [(*(_group(name, entry) for name in by), *_numbers(entry)) for entry in sums]
    return table(rows, right=range(len(by), len(by) + len(_NUMBERS)))


def status_text(status: GetLedgerStatusResponse) -> str:
    """How far the ledger is behind the account."""
    written = "never"
    if status.HasField("last_write_time"):
        written = status.last_write_time.ToJsonString()
    age = f", the oldest for {status.outbox_age_ms / 1_000:.1f} s" if status.outbox_events else ""
    waiting = f"{status.outbox_events} of at most {status.outbox_most} events{age}"
    if status.outbox_error:
        waiting = f"not known: {status.outbox_error}"
    lines = [
        f"waiting: {waiting}",
        f"last write: {written}",
    ]
    if status.last_error:
        lines.append(f"failing: {status.last_error}")
    return "\n".join(lines)


def _group(name: str, entry: UsageSum) -> str:
    if name == "hour":
        return f"{entry.from_time.ToDatetime():%Y-%m-%dT%H:%MZ}"
    if name == "day":
        return f"{entry.from_time.ToDatetime():%Y-%m-%d}"
    return str(getattr(entry, "model" if name == "model" else f"{name}_id")) or "-"


def _numbers(entry: UsageSum) -> tuple[str, ...]:
    usage = entry.usage
    return (
        str(entry.requests),
        str(usage.prompt_tokens),
        str(usage.cached_prompt_tokens),
        str(usage.completion_tokens),
        amount_text(entry.amount_nanos),
    )
