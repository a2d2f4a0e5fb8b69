"""Do limits refuse more than before, and which?"""

from collections import Counter
from collections.abc import Iterable

from weir_cli.doctor.cause import percent
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.finding import Finding, Symptom
from weir_cli.doctor.window import Window

SHARE = 0.1
"""Of a tenant's requests; a limit that never refuses is none."""
FEWEST = 10
"""Refusals; fewer are a client's burst."""
KNOWN = 20
"""Requests of the tenant before; of one that is new nobody knows what is usual."""
MORE = 1.5
"""Times the former share: a tenant that has always been at its limit knows it."""


def refusals(evidence: Evidence) -> Iterable[Finding]:
    """Tenants that are refused by a limit more often than before, the most refused first."""
    for tenant in evidence.recent.tenants():
        mine = evidence.of(tenant=tenant)
        limits = _by_limit(mine.recent)
        if limits and _asked(mine.baseline, mine.baseline.refused) >= KNOWN:
            limit, knob = max(limits, key=lambda key: limits[key])
            count = limits[limit, knob]
            share, before = count / _asked(mine.recent, count), _share_before(mine, limit)
            if count >= FEWEST and share >= SHARE and share >= MORE * before:
                yield Finding(
                    cause="limit_refuses",
                    symptom=Symptom.REFUSALS,
                    share=share,
                    subject=tenant,
                    evidence=(
                        f"{limit} refused {count} requests of tenant {tenant}, "
                        f"{percent(share)} of them; {percent(before)} before",
                    ),
                    remedy=knob or f"raise the limit {limit}, or spread the requests",
                )


def _by_limit(window: Window) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for flow in window.flows:
        for one in flow.refused:
            if one.limit_id:
                counts[one.limit_id, one.knob] += one.count
    return counts


def _share_before(evidence: Evidence, limit: str) -> float:
    counts = _by_limit(evidence.baseline)
    count = sum(number for (name, _), number in counts.items() if name == limit)
    return count / _asked(evidence.baseline, count)


def _asked(window: Window, refused: int) -> int:
    return max(1, window.total("arrivals") + refused)
