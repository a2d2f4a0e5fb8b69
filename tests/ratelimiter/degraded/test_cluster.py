"""A cluster of three under a ratelimiter, of which nodes are killed."""

from pathlib import Path

from tests.ratelimiter.account import directory, limit, parallel
from tests.ratelimiter.degraded.live import eventually, live_replica, run_some
from tests.ratelimiter.valkey import running_cluster
from weir.directory.v1 import directory_pb2 as pb

YEAR_S = 365 * 24 * 3600
TOKENS = limit(
    "tpm",
    pb.LIMIT_KIND_BUCKET,
    pb.LIMIT_RESOURCE_TOKENS,
    1_000_000,
    refill=1,
    period_s=YEAR_S,
)
SNAPSHOT = directory(TOKENS, parallel(100))


async def test_a_cluster_killed_and_restarted(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "cluster") as cluster:
        async with live_replica(cluster.url, tmp_path / "a", SNAPSHOT) as account:
            charged = await run_some(account, "before", 3)
            ends_away = (await account.reserve("ends-away")).record
            for node in cluster.nodes:
                node.kill()
            charged += await run_some(account, "during", 8)
            assert account.limiter.degraded
            await account.settle(ends_away, 10, 9)
            for node in cluster.nodes:
                node.start()
            await eventually(account.is_back)
            charged += 19 + await run_some(account, "after", 3)

            async def exact() -> bool:
                return await account.remaining() == {
                    "tenant:acme/tpm": 1_000_000 - charged,
                    "tenant:acme/parallel": 100,
                }

            await eventually(exact)
            charges = await account.charges()
            assert len({event.reservation_id for event in charges}) == len(charges) == 15
