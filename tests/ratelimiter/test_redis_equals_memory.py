"""Random histories: Redis and memory answer the same, to the unit, at every step."""

import contextlib
import random
from collections.abc import Awaitable, Sequence
from pathlib import Path

import msgspec
import pytest

from tests.ratelimiter.builders import bucket, in_flight, lease
from tests.ratelimiter.twin_store import TwinStore
from tests.ratelimiter.valkey import Valkey
from weir_core.bucket import BucketShape
from weir_core.errors import WeirError
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.calendar import Calendar, Unit
from weir_ratelimiter.domain.change import Count, WindowMove
from weir_ratelimiter.domain.demand import demand
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.ids import fingerprint, reservation_id
from weir_ratelimiter.domain.limit import HELD, Kind, Layer, Limit, Resource
from weir_ratelimiter.domain.price import Price
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore

START_MS = 1_700_000_000_000
HORIZON_MS = 10 * 366 * 86_400_000
TENANTS = ("acme", "globex")
PRICE = Price(3, 1, 7)


def window(key: str, resource: Resource, capacity: int, unit: Unit) -> Limit:
    return Limit(
        key=key,
        layer=Layer.TENANT,
        kind=Kind.WINDOW,
        resource=resource,
        shape=BucketShape(capacity, 0, 1),
        knob=f"limit {key}",
        max_debt=capacity,
        calendar=Calendar(unit),
    )


class History:
    """A deployment under random use."""

    def __init__(self, store: TwinStore, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = store
        self.now = START_MS
        self.records: list[tuple[Record, ReserveCommand]] = []
        self.serial = 0
        self.limits = {tenant: self.draw_limits(tenant) for tenant in TENANTS}

    def draw_limits(self, tenant: str) -> tuple[Limit, ...]:
        draw = self.random.randint
        one_in = self.random.randrange
        periods = (1, 1_000, 7_000, 60_000)

        def tokens(name: str, resource: Resource, **more: bool) -> Limit:
            drawn = bucket(
                name,
                resource,
                draw(60, 300),
                refill=draw(0, 300),
                period_ms=self.random.choice(periods),
                max_debt=draw(1, 100),
                shadow=more.get("shadow", False),
            )
            return msgspec.structs.replace(drawn, overdraws=more.get("overdraws", False))

        def held(name: str) -> Limit:
            return in_flight(
                name,
                draw(60, 300),
                shadow=not one_in(4),
                max_debt=draw(0, 100),
                overdraws=not one_in(3),
            )

        found = [
            tokens("cluster/tpm", Resource.TOKENS),
            lease("cluster/parallel", draw(1, 6)),
            held("cluster/in_flight"),
            bucket(f"tenant:{tenant}/rps", Resource.REQUESTS, draw(1, 6), period_ms=1_000),
            tokens(f"tenant:{tenant}/tpm", Resource.TOKENS, overdraws=not one_in(3)),
            tokens(f"tenant:{tenant}/itpm", Resource.INPUT_TOKENS, shadow=not one_in(2)),
            tokens(f"user:{tenant}/bob/otpm", Resource.OUTPUT_TOKENS),
            lease(f"tenant:{tenant}/parallel", draw(1, 4), shadow=not one_in(4)),
            held(f"tenant:{tenant}/in_flight"),
            window(f"tenant:{tenant}/day", Resource.TOKENS, draw(100, 900), Unit.DAY),
            window(f"api_key:{tenant}1/cost", Resource.COST, draw(500, 3_000), Unit.MONTH),
            tokens("model:m/otpm", Resource.OUTPUT_TOKENS),
        ]
        return tuple(limit for limit in found if one_in(5))

    def by_key(self, tenant: str) -> dict[str, Limit]:
        return {limit.key: limit for limit in self.limits[tenant]}

    async def step(self) -> None:
        rules = (
            *[self.reserve] * 6,
            *[self.extend] * 4,
            *[self.settle] * 4,
            *[self.refund] * 2,
            *[self.time_passes] * 4,
            *[self.sweep] * 2,
            self.clock_jumps,
            self.limits_change,
            self.adjust,
            self.look_back,
        )
        await self.random.choice(rules)()
        for tenant in TENANTS:
            await self.store.states(tenant, self.limits[tenant])

    async def reserve(self) -> None:
        draw = self.random.randint
        tenant = self.random.choice(TENANTS)
        if self.records and draw(0, 5) == 0:
            command = self.random.choice(self.records)[1]
        else:
            self.serial += 1
            prompt, output = draw(1, 60), draw(1, 60)
            command = ReserveCommand(
                id=reservation_id(tenant, f"r{self.serial}"),
                request_id=f"r{self.serial}",
                subject=Subject(tenant, "bob", f"{tenant}1", "m", "1"),
                fingerprint=fingerprint(prompt, output),
                limits=self.limits[tenant],
                amounts=demand(prompt, output, output + 20, streams=True, price=PRICE),
                prompt_tokens=prompt,
                output_tokens=output,
                max_new_tokens=output + draw(0, 40),
                ttl_ms=self.random.choice((2_000, 30_000)),
                price_version=1,
                price=PRICE,
            )
        try:
            await self.store.reserve(command, dry_run=True)
            got = await self.store.reserve(command)
        except WeirError:
            return
        if got.unseeded:
            await self.store.seed(
                command.subject.tenant_id,
                [WindowMove(lim.key, w.id, Count(draw(0, 50), 0)) for lim, w in got.unseeded],
            )
            got = await self.store.reserve(command)
        if got.reservation is not None:
            self.records.append((Record.of(got.reservation, self.store.epoch), command))

    async def extend(self) -> None:
        if not self.records:
            return
        draw = self.random.randint
        record, command = self.random.choice(self.records[-8:])
        news = Extension(
            Usage(draw(0, 40), draw(0, 9), draw(0, record.max_new_tokens)),
            additional_tokens=draw(0, 1) * draw(0, 50),
            dispatched=draw(0, 1) == 1,
            may_owe=draw(0, 1) == 1,
            ttl_ms=self.random.choice((None, None, 2_000, 40_000)),
            lifecycle=self.random.choice((b"", b"\x00life")),
        )
        await self.tolerant(self.store.extend(record, news, self.by_key(command.subject.tenant_id)))

    async def settle(self) -> None:
        if not self.records:
            return
        draw = self.random.randint
        record, command = self.random.choice(self.records[-12:])
        quality = self.random.choice((Quality.EXACT, Quality.ESTIMATED, Quality.UNKNOWN))
        prompt = draw(0, 90)
        usage = Usage(prompt, draw(0, prompt), draw(0, 120))
        report = Report(None if quality is Quality.UNKNOWN else usage, quality, 1, b"done\xff")
        await self.tolerant(
            self.store.settle(record, report, self.by_key(command.subject.tenant_id))
        )

    async def refund(self) -> None:
        if self.records:
            record, command = self.random.choice(self.records[-6:])
            limits = self.by_key(command.subject.tenant_id)
            await self.tolerant(self.store.refund(record, 6, b"", limits))

    async def time_passes(self) -> None:
        self.now += self.random.choice((1, 17, 400, 1_500, 9_000, 45_000))

    async def clock_jumps(self) -> None:
        self.now += self.random.choice((-3_600_000, -61_000, -1_500, -3, 3_600_000, 86_400_000))

    async def sweep(self) -> None:
        for reservation in await self.store.lapsed(1_000):
            await self.store.expire(reservation, self.by_key(reservation.subject.tenant_id))

    async def limits_change(self) -> None:
        tenant = self.random.choice(TENANTS)
        self.limits[tenant] = self.draw_limits(tenant)

    async def adjust(self) -> None:
        tenant = self.random.choice(TENANTS)
        some: Sequence[Limit] = [x for x in self.limits[tenant] if x.kind not in HELD]
        if some:
            units = self.random.choice((-200, -1, 5, 300))
            name = f"a{self.random.randint(0, 12)}"
            subject = Subject(tenant, "", "", "")
            limit = self.random.choice(some)
            await self.tolerant(self.store.adjust(Adjustment(name, subject, limit, units, "why")))

    async def look_back(self) -> None:
        if self.records:
            record, _ = self.random.choice(self.records)
            await self.store.find(record.subject.tenant_id, record.id)
            await self.store.open_reservations(record.subject.tenant_id, (0, ""), 5)
        events = await self.store.outbox(1_000_000)
        if self.random.randint(0, 1):
            await self.store.acknowledge([entry.id for entry in events[:3]])
        await self.store.backlog()

    async def tolerant(self, decision: Awaitable[object]) -> None:
        with contextlib.suppress(WeirError):
            await decision


async def run(valkey: Valkey, folder: Path, seed: int, steps: int) -> None:
    valkey.flush()
    log = MemoryLog.open(folder / str(seed), MemoryOptions(horizon_ms=HORIZON_MS), START_MS)
    clock = {"now": START_MS}
    memory = MemoryStore(log, lambda: clock["now"])
    options = RedisOptions(timeout_s=10, remember_ms=HORIZON_MS)
    redis = await RedisStore.open(valkey.url, options, forced_ms=lambda: clock["now"])
    history = History(TwinStore(memory, redis), seed)
    try:
        for _ in range(steps):
            await history.step()
            clock["now"] = history.now
    finally:
        await history.store.close()


@pytest.mark.parametrize("seed", range(4))
async def test_redis_answers_as_memory_does(valkey: Valkey, tmp_path: Path, seed: int) -> None:
    await run(valkey, tmp_path, seed, 120)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 200))
async def test_redis_answers_as_memory_does_for_long(
    valkey: Valkey, tmp_path: Path, seed: int
) -> None:
    await run(valkey, tmp_path, seed, 400)
