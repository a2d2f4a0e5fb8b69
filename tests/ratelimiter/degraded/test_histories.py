"""Random histories of two ratelimiters whose store comes and goes, in every manner.

Whatever happened: in the end every reservation has ended once, the levels are what was charged
to the token, the events add up to the same, and what a caller was told first stands.
"""

import random
from pathlib import Path

import pytest

from tests.ratelimiter.account import SHED, directory, limit, parallel
from tests.ratelimiter.degraded.site import PROBED_MS, Replica, Site, replica, site
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import WeirError
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.record import Record

CAPACITY = 10_000_000
STEPS = 80
HOUR_MS = 3_600_000


def slow_tokens() -> pb.Limit:
    """Practically without refill, so that levels can be compared to the unit."""
    kind, resource = pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_TOKENS
    return limit("tpm", kind, resource, CAPACITY, refill=1, period_s=366 * 24 * 3600)


def budget() -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_WINDOW, pb.LIMIT_RESOURCE_TOKENS
    return limit("budget", kind, resource, CAPACITY, window="month")


class History:
    """What the callers did and were told."""

    def __init__(self, shared: Site, replicas: list[Replica], seed: int) -> None:
        self.site = shared
        self.replicas = replicas
        self.dice = random.Random(seed)
        self.records: list[bytes] = []
        self.running: dict[bytes, int] = {}
        self.told: dict[str, Usage] = {}

    async def step(self) -> None:
        act = self.dice.choice(
            [self.reserve] * 4
            + [self.extend] * 4
            + [self.settle] * 3
            + [self.refund, self.again, self.vanish, self.fail, self.mend, self.wait]
        )
        await act(self.dice.choice(self.replicas))
        for account in self.replicas:
            await account.parts.watch.tick()

    async def reserve(self, account: Replica) -> None:
        prompt, output = self.dice.randint(1, 50), self.dice.randint(1, 50)
        try:
            made = await account.reserve(f"r{len(self.records)}", prompt=prompt, output=output)
        except WeirError:
            return
        self.records.append(made.record)
        self.running[made.record] = 0

    async def extend(self, account: Replica) -> None:
        for record in self.some():
            output = self.running[record] + self.dice.randint(0, 10)
            try:
                await account.extend(record, output)
            except WeirError:
                continue
            self.running[record] = output

    async def settle(self, account: Replica) -> None:
        for record in self.some():
            known = account.limiter.read(record)
            usage = Usage(known.prompt_tokens, 0, self.running.pop(record) + 3)
            await account.settle(record, usage.prompt_tokens, usage.completion_tokens)
            self.told[known.id] = usage

    async def refund(self, account: Replica) -> None:
        for record in self.some():
            del self.running[record]
            await account.limiter.refund(record, SHED, b"")

    async def again(self, account: Replica) -> None:
        """A settlement is repeated, as after a lost reply, maybe by another ratelimiter."""
        for record in self.dice.sample(self.records, min(2, len(self.records))):
            known = account.limiter.read(record)
            usage = self.told.get(known.id)
            if usage is not None:
                ended = await account.settle(record, usage.prompt_tokens, usage.completion_tokens)
                assert not ended.conflict

    async def vanish(self, account: Replica) -> None:
        """A caller dies."""
        for record in self.some():
            del self.running[record]

    async def fail(self, account: Replica) -> None:
        outage = self.site.outage
        manner = self.dice.choice(["refuses", "hangs", "loses_replies"])
        setattr(outage, manner, True)

    async def mend(self, account: Replica) -> None:
        outage = self.site.outage
        outage.refuses = outage.hangs = outage.loses_replies = False

    async def wait(self, account: Replica) -> None:
        self.site.advance(self.dice.choice([100, 3_000, 20_000, 40_000]))
        await account.limiter.sweep()

    def some(self) -> list[bytes]:
        return self.dice.sample(list(self.running), min(2, len(self.running)))

    async def finish(self) -> None:
        """Everything is well again, and nobody sends anything more."""
        await self.mend(self.replicas[0])
        for wait_ms in (PROBED_MS, 40_000, HOUR_MS):
            self.site.advance(wait_ms)
            for account in self.replicas:
                await account.parts.watch.tick()
                assert not account.parts.mode.degraded
            for account in self.replicas:
                await account.limiter.sweep()


@pytest.mark.parametrize("seed", range(4))
async def test_the_books_agree_in_the_end(tmp_path: Path, seed: int) -> None:
    await agree_in_the_end(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 104))
async def test_the_books_agree_in_the_end_again_and_again(tmp_path: Path, seed: int) -> None:
    await agree_in_the_end(tmp_path, seed)


async def agree_in_the_end(tmp_path: Path, seed: int) -> None:
    snapshot = directory(slow_tokens(), budget(), parallel(1_000))
    async with (
        site(tmp_path, snapshot, live=2) as shared,
        replica(shared, "a") as one,
        replica(shared, "b") as two,
    ):
        history = History(shared, [one, two], seed)
        for _ in range(STEPS):
            await history.step()
        await history.finish()
        events = [entry.event for entry in await shared.shared.outbox(10_000)]
        charged = 0
        for signed in history.records:
            known: Record = one.limiter.read(signed)
            found = await shared.shared.find("acme", known.id)
            assert found is not None
            assert not found.open
            assert found.settlement is not None
            stands = found.settlement.charged
            assert history.told.get(known.id, stands) == stands
            assert found.settlement.quality in (Quality.EXACT, Quality.ESTIMATED)
            own = [event for event in events if event.reservation_id == known.id]
            assert len({event.kind for event in own}) == len(own)
            billed = sum(e.charged.completion_tokens - e.previous.completion_tokens for e in own)
            assert billed == stands.completion_tokens
            charged += stands.prompt_tokens + stands.completion_tokens
        left = await one.remaining()
        assert left["tenant:acme/tpm"] == CAPACITY - charged
        assert left["tenant:acme/budget"] == CAPACITY - charged
        assert left["tenant:acme/parallel"] == 1_000
        assert one.sample("pending_replays") == two.sample("pending_replays") == 0
