"""The time before as it would have been with the tenants of now: a new one makes nobody slower."""

from weir.gateway.v1.history_service_pb2 import Distribution
from weir_cli.doctor.statistics import joined
from weir_cli.doctor.window import Window

FEW = 5
"""Requests of a tenant before; those with fewer count together."""
_FINE = 1_000
_FEW = "\0few"


def alike(before: Window, after: Window, name: str) -> tuple[Distribution, Distribution]:
    """A distribution of the tenants that there were before too, then and now.

    The former one has the proportions of now, so that only its quantiles and mean are of use.
    """
    old = {tenant: before.of(tenant=tenant).values(name) for tenant in before.tenants()}
    old = {tenant: values for tenant, values in old.items() if values.count}
    groups: dict[str, list[str]] = {}
    for tenant, values in old.items():
        groups.setdefault(tenant if values.count >= FEW else _FEW, []).append(tenant)
    usual, now = [], []
    for members in groups.values():
        here = joined(after.of(tenant=tenant).values(name) for tenant in members)
        there = joined(old[tenant] for tenant in members)
        now.append(here)
        usual.append(_times(there, _FINE * here.count / there.count))
    return joined(usual), joined(now)


def output_kept(before: Window, after: Window) -> float:
    """Output of the tenants that there were before, for what it was for each that lived.

    1 for as much for each request and second as before; infinite where nobody was there before.
    """
    made, expected = 0.0, 0.0
    for tenant in before.tenants():
        old, new = before.of(tenant=tenant), after.of(tenant=tenant)
        lived = old.in_flight * old.busy_seconds
        if lived and old.total("output_tokens"):
            made += new.total("output_tokens")
            expected += new.in_flight * new.busy_seconds * old.total("output_tokens") / lived
    return made / expected if expected else float("inf")


def _times(values: Distribution, factor: float) -> Distribution:
    counts = [round(count * factor) for count in values.counts]
    return Distribution(
        count=sum(counts), sum=values.sum * factor, buckets=values.buckets, counts=counts
    )
