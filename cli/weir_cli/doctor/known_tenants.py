"""Whether a tenant that a diagnosis is asked about is there at all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weir.gateway.v1.admin_service_pb2 import ListTenantsRequest
from weir_cli.administration import CALL_S, administer
from weir_cli.doctor.evidence import Evidence
from weir_cli.errors import CommandError

_PAGE = 1_000
_REST = "other"
"""Under which the history adds up tenants beyond the busiest."""
_TOLD = 20
"""Ids in an error; of more their number."""


def check_tenants(
    evidence: Evidence, named: dict[str, str], address: str, state_dir: Path | None
) -> None:
    """Looks in the history first, then in the directory.

    Args:
        evidence: everything that is looked at.
        named: what the user gave, by what it was given as; empty values are not looked at.
        address: of a gateway's gRPC; empty: the stack that runs here.
        state_dir: of that stack.

    Raises:
        CommandError: one is in neither.
    """
    seen = {*evidence.recent.tenants(), *evidence.baseline.tenants()}
    missing = {field: value for field, value in named.items() if value and value not in seen}
    if not missing:
        return
    try:
        known, why = _directory(address, state_dir), "there is no such tenant; known"
    except CommandError:
        # Without a database nobody lists tenants; those of many that are told as one are not seen.
        if _REST in seen:
            return
        known, why = sorted(seen), "no request of such a tenant was seen; seen"
    for field, value in missing.items():
        if value not in known:
            raise CommandError(f"{field} is {value[:80]!r}: {why}: {_listed(known)}")


def _listed(known: Sequence[str]) -> str:
    more = len(known) - _TOLD
    told = ", ".join(sorted(known)[:_TOLD]) or "none"
    return told + (f" and {more} more" if more > 0 else "")


def _directory(address: str, state_dir: Path | None) -> list[str]:
    """Ids of all tenants, which an administrator may see. Raises CommandError."""

    async def call(stub: Any) -> list[str]:
        found, token = [], ""
        while True:
            request = ListTenantsRequest(page_size=_PAGE, page_token=token)
            told = await stub.ListTenants(request, timeout=CALL_S)
            found += [tenant.id for tenant in told.tenants]
            token = told.next_page_token
            if not token:
                return found

    return administer(address, state_dir, call)
