"""Rules about pools: what each is for, and how those of one model fit together."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from weir_gateway.directory.document import PoolEntry


def pool_problem(pool: PoolEntry, tenants: Collection[str]) -> str | None:
    """What is wrong with a pool by itself; None when nothing is."""
    if (pool.isolation == "dedicated") != (pool.tenant is not None):
        return "`tenant` goes with isolation dedicated, and only with it"
    if pool.tenant is not None and pool.tenant not in tenants:
        return f"there is no tenant {pool.tenant!r}"
    least, most = pool.scaling.min_workers, pool.scaling.max_workers
    if least is not None and most is not None and most < least:
        return f"scaling: max_workers {most} is below min_workers {least}"
    return None


def pools_of_model_problem(names: Sequence[str], pools: Mapping[str, PoolEntry]) -> str | None:
    """What is wrong with the pools of a model, its first one first; None when nothing is."""
    for name, count in Counter(names).items():
        if name not in pools:
            return f"there is no pool {name!r}"
        if count > 1:
            return f"the pool {name!r} is there twice"
    mine = [pools[name] for name in names]
    profiles = Counter(profile for pool in mine for profile in pool.profiles)
    for profile, count in profiles.items():
        if count > 1:
            return f"two of its pools claim workers of the profile {profile!r}"
    # Without profiles a pool has what no other claims: that can be one only.
    rest = [pool for pool in mine if not pool.profiles and pool.tenant is None]
    if len(rest) > 1:
        return (
            f"its pools {rest[0].name!r} and {rest[1].name!r} name no `profiles`: all but one "
            "must say which workers are theirs"
        )
    return None
