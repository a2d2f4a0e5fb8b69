"""A plan whose every limit shows each unit, and the check that account and ledger agree."""

from collections import Counter
from collections.abc import Sequence

from tests.e2e.bill import Row, bill
from tests.e2e.deployment import Deployment
from tests.e2e.wait import until
from weir.common.v1.subject_pb2 import Subject

CAPACITY = 10_000_000
MONEY = 10**15
SLOTS = 64
# One unit a day flows back: a bucket shows every debit and credit to the unit.
COUNTED = [
    {
        "id": "counted",
        "limits": [
            {"id": "slots", "resource": "concurrency", "limit": SLOTS},
            {"id": "requests", "resource": "requests", "rate": "1/day", "burst": CAPACITY},
            {"id": "tokens", "resource": "tokens", "rate": "1/day", "burst": CAPACITY},
            {"id": "month", "resource": "tokens", "limit": CAPACITY, "window": "month"},
            {"id": "budget", "resource": "cost", "limit": MONEY // 10**9, "window": "month"},
        ],
    }
]
PRICED = {"price": {"input": "0.15", "cached_input": "0.05", "output": "0.6"}}


async def books_closed(
    stack: Deployment, tenants: Sequence[str], *, within_s: float = 20.0
) -> list[Row]:
    """Waits until nothing is held and every limit equals the ledger, to the unit.

    Returns the rows: one charge for each reservation.
    """
    await until(lambda: _gaps(stack, tenants), lambda gaps: not gaps, "closed books", within_s)
    rows = await bill(stack)
    charges = Counter(row.reservation_id for row in rows if row.kind == "charge")
    assert set(charges.values()) <= {1}, charges.most_common(3)
    adjusts = Counter(row.reservation_id for row in rows if row.kind == "adjust")
    assert set(adjusts.values()) <= {1}, adjusts.most_common(3)
    assert set(adjusts) <= set(charges)
    return rows


async def _gaps(stack: Deployment, tenants: Sequence[str]) -> dict[str, tuple[int, int, int]]:
    """Limits that are not at rest, or not at what the ledger says: (is, should be, held)."""
    gaps = {}
    rows = await bill(stack)
    for tenant in tenants:
        mine = [row for row in rows if row.tenant == tenant]
        expected = {
            "slots": SLOTS,
            "requests": CAPACITY - sum(row.requests for row in mine),
            "tokens": CAPACITY - sum(row.tokens for row in mine),
            "month": CAPACITY - sum(row.tokens for row in mine),
            "budget": MONEY - sum(row.nanos for row in mine),
        }
        subject = Subject(tenant_id=tenant, user_id="user", model=stack.model)
        limits = await stack.limits(subject)
        for name, due in expected.items():
            limit = limits[f"tenant:{tenant}/{name}"]
            if (limit.remaining, limit.held) != (due, 0):
                gaps[limit.limit_id] = (limit.remaining, due, limit.held)
    return gaps
