"""A directory with a limit at every layer, each with a race of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration

from tests.ratelimiter.race import Race, Who
from weir.directory.v1 import directory_pb2 as pb
from weir_core.directory import DirectoryIndex
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.subject import Subject

LAYERS = ("cluster", "tenant", "user", "api_key", "model")
CAPACITIES = (1, 100)
PLENTY = 10**9
# Practically without refill, so that levels can be compared to the unit.
_YEAR = Duration(seconds=366 * 24 * 3600)


@dataclass(frozen=True)
class Contest:
    """A race, and what it is for.

    Attributes:
        race: what the clients do.
        capacity: of its limits, all of which bind the race alone.
        limits: what the race is held to.
    """

    race: Race
    capacity: int
    limits: Sequence[pb.Limit]


def spent_and_held() -> list[Contest]:
    """Two contests a layer and capacity: for units that are spent, and for leases."""
    contests = []
    for layer in LAYERS:
        for capacity in CAPACITIES:
            name = f"{layer}-{capacity}"
            limits = [bucket("rps", pb.LIMIT_RESOURCE_REQUESTS, capacity), window("day", capacity)]
            # Some give theirs back: more ask than there are units.
            attempts = 1 if capacity == 1 else 3
            race = Race(f"{layer}/spent-{name}", _who(f"spent-{name}"), attempts)
            contests.append(Contest(race, capacity, limits))
            held = Race(f"{layer}/held-{name}", _who(f"held-{name}"), 2, hold_ms=100)
            contests.append(Contest(held, capacity, [lease("parallel", capacity)]))
    return contests


def sums() -> Contest:
    """Requests of all sizes for limits that never bind, to compare sums."""
    limits = [
        bucket("requests", pb.LIMIT_RESOURCE_REQUESTS, PLENTY),
        bucket("tokens", pb.LIMIT_RESOURCE_TOKENS, PLENTY),
        bucket("input", pb.LIMIT_RESOURCE_INPUT_TOKENS, PLENTY),
        window("month", PLENTY, pb.LIMIT_RESOURCE_OUTPUT_TOKENS, of="month"),
        lease("parallel", PLENTY),
        in_flight("in_flight", PLENTY),
    ]
    return Contest(Race("tenant/sums", _who("sums"), 4, most_tokens=60), PLENTY, limits)


def directory_of(contests: Sequence[Contest]) -> pb.Snapshot:
    """Each contest's limits at its layer, with a tenant, user, key and model of its own."""
    snapshot = pb.Snapshot(version=1, plans=[pb.Plan(id="plan")])
    for contest in contests:
        layer, _, _ = contest.race.name.partition("/")
        who = contest.race.who
        own = {name: contest.limits if name == layer else [] for name in LAYERS}
        snapshot.tenants.add(id=who.tenant, plan_id="plan", limits=own["tenant"])
        snapshot.users.add(id=who.user, tenant_id=who.tenant, limits=own["user"])
        snapshot.api_keys.add(
            id=who.key, tenant_id=who.tenant, user_id=who.user, limits=own["api_key"]
        )
        snapshot.models.add(name=who.model, limits=own["model"])
        for limit in own["cluster"]:
            paired = snapshot.cluster_limits.add()
            paired.CopyFrom(limit)
            paired.id, paired.model = f"{limit.id}-{who.model}", who.model
    return snapshot


def limits_of(snapshot: pb.Snapshot, who: Who) -> Sequence[Limit]:
    """The counted limits that apply to a race."""
    subject = Subject(who.tenant, who.user, who.key, who.model, "")
    return LimitBook(DirectoryIndex(snapshot)).resolve(subject).counted


def bucket(limit_id: str, resource: pb.LimitResource.ValueType, capacity: int) -> pb.Limit:
    kind = pb.LIMIT_KIND_BUCKET
    return pb.Limit(
        id=limit_id, kind=kind, resource=resource, capacity=capacity, refill=1, period=_YEAR
    )


def window(
    limit_id: str,
    capacity: int,
    resource: pb.LimitResource.ValueType = pb.LIMIT_RESOURCE_INPUT_TOKENS,
    *,
    of: str = "day",
) -> pb.Limit:
    kind = pb.LIMIT_KIND_WINDOW
    return pb.Limit(id=limit_id, kind=kind, resource=resource, capacity=capacity, window=of)


def lease(limit_id: str, capacity: int) -> pb.Limit:
    resource = pb.LIMIT_RESOURCE_CONCURRENCY
    return pb.Limit(id=limit_id, kind=pb.LIMIT_KIND_LEASE, resource=resource, capacity=capacity)


def in_flight(limit_id: str, capacity: int) -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_HOLD, pb.LIMIT_RESOURCE_IN_FLIGHT_TOKENS
    return pb.Limit(id=limit_id, kind=kind, resource=resource, capacity=capacity)


def _who(name: str) -> Who:
    return Who(tenant=f"t-{name}", user="bob", key=f"k-{name}", model=f"m-{name}")
