"""Whose request a row of a trace becomes."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from weir_sim.traces.trace_error import TraceError
from weir_sim.traces.trace_row import TraceRow

NOBODY = "all"
"""The tenant of traces without clients."""
_MAX_TENANTS = 100_000


class TenantRule(StrEnum):
    """By what rows are told apart.

    Attributes:
        CLIENT: the trace's own clients; one tenant where it has none.
        HASH: a hash of the row's index, so that each tenant has a random part.
        ROUND_ROBIN: in turn.
    """

    CLIENT = "client"
    HASH = "hash"
    ROUND_ROBIN = "round-robin"


@dataclass(frozen=True, slots=True)
class TenantMapping:
    """A rule, and for all but CLIENT how many tenants it makes."""

    rule: TenantRule = TenantRule.CLIENT
    tenants: int = 1

    def tenant_of(self, index: int, row: TraceRow) -> str:
        """The tenant of the row with that index (from 0)."""
        if self.rule is TenantRule.CLIENT:
            return NOBODY if row.client is None else f"t{row.client}"
        if self.rule is TenantRule.ROUND_ROBIN:
            return f"t{index % self.tenants}"
        digest = hashlib.blake2b(index.to_bytes(8, "little"), digest_size=8).digest()
        return f"t{int.from_bytes(digest, 'little') % self.tenants}"


def parse_mapping(text: str) -> TenantMapping:
    """Reads `client`, `hash:8` or `round-robin:8`. Raises TraceError."""
    name, _, number = text.partition(":")
    if name not in tuple(TenantRule):
        raise TraceError(f"--tenants is {text!r}; it must be client, hash:N or round-robin:N")
    rule = TenantRule(name)
    if rule is TenantRule.CLIENT:
        return TenantMapping()
    if not number.isdigit() or not 1 <= int(number) <= _MAX_TENANTS:
        raise TraceError(f"--tenants is {text!r}; N must be a whole number, 1 to {_MAX_TENANTS}")
    return TenantMapping(rule, int(number))
