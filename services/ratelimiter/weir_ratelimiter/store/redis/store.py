"""The store that ratelimiters share: Redis or Valkey, one script call a decision.

What a script decides and what is told of it are kept apart: the script compares and moves
levels; shortfalls, waits and states come from the domain's own rules, out of the levels that
the script read.
"""

import time
from collections.abc import Callable, Sequence
from typing import Self

from weir_ratelimiter.domain.adjustment import Adjustment, check_repeated
from weir_ratelimiter.domain.adjustment import adjust as adjusted_levels
from weir_ratelimiter.domain.admission import ReserveCommand, evaluate
from weir_ratelimiter.domain.change import WindowMove
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.reservation import LONGEST_TTL_MS, Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.base import (
    Adjusted,
    Backlog,
    Ended,
    ExtendedReservation,
    Limits,
    LimitState,
    Mark,
    OutboxEntry,
    Reserved,
    outbox_full,
)
from weir_ratelimiter.store.endings import forgotten, over
from weir_ratelimiter.store.limit_state import limit_state
from weir_ratelimiter.store.redis import answers, calls, record_calls, stored
from weir_ratelimiter.store.redis.answers import levels_of
from weir_ratelimiter.store.redis.asker import Asker
from weir_ratelimiter.store.redis.call import Call
from weir_ratelimiter.store.redis.checks import check_server, epoch_of
from weir_ratelimiter.store.redis.epoch import Epoch
from weir_ratelimiter.store.redis.expiry import ExpirySets
from weir_ratelimiter.store.redis.fields import Fields
from weir_ratelimiter.store.redis.keyspace import (
    NOBODY,
    hash_of,
    is_shared,
    reservation_key,
    shard_of,
)
from weir_ratelimiter.store.redis.moment import Moment, ServerTime
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.outbox import Outbox
from weir_ratelimiter.store.redis.server import RedisServer
from weir_ratelimiter.store.redis.shards import Shards


class RedisStore:
    """See `Store`. Any number of processes may use one server."""

    def __init__(
        self, server: RedisServer, options: RedisOptions, epoch: str, server_time: ServerTime
    ) -> None:
        self._server = server
        self._options = options
        self._epoch = Epoch(server, epoch, options.remember_ms)
        self._time = server_time
        self._asker = Asker(server, server_time)
        self._shards = Shards(server)
        self._expiry = ExpirySets(server, self._shards)
        self._outbox = Outbox(server, self._shards)

    @classmethod
    async def open(
        cls,
        url: str,
        options: RedisOptions | None = None,
        *,
        forced_ms: Callable[[], int] | None = None,
    ) -> Self:
        """Connect, and see that the server keeps what it is given.

        Args:
            url: `redis://[user:password@]host:port/db`, `rediss://` or `unix://path`.
            options: how it is used.
            forced_ms: in tests, what the scripts take for the time, Unix milliseconds.

        Raises:
            StartupError: the URL is malformed, or the server may forget.
            WeirError: LIMITER_UNAVAILABLE if it does not answer.
        """
        options = options or RedisOptions()
        server = RedisServer.of(url, options.timeout_s, options.namespace)
        try:
            await check_server(server)
            await server.load()
            epoch = await epoch_of(server)
            store = cls(server, options, epoch, ServerTime(_local_ms, forced_ms))
        except BaseException:
            await server.close()
            raise
        return store

    @property
    def epoch(self) -> str:
        """See `Store`."""
        return self._epoch.memory.epoch

    @property
    def states_lost(self) -> int:
        """How often the server turned out to hold another state than before."""
        return self._epoch.states_lost

    async def whole_epoch(self) -> str:
        """See `Store`."""
        return await self._epoch.look()

    async def reserve(self, command: ReserveCommand, *, dry_run: bool = False) -> Reserved:
        """See `Store`."""
        backlog = self._shards.events
        is_full = backlog >= self._options.most_events
        is_dry = dry_run or is_full

        def asked(moment: Moment) -> Fields:
            return calls.demanded(command, moment.now_ms)

        def call(fields: Fields, moment: Moment) -> Call:
            remember_ms = self._options.remember_ms
            return calls.reserve(command, fields, remember_ms, moment, dry_run=is_dry)

        (status, now_ms, *rest), fields = await self._asker.at_this_moment(asked, call)
        if status == b"known":
            return answers.replayed(command, *rest)
        if status == b"reserved":
            reserved = answers.admitted(command, fields, now_ms, *rest)
            self._shards.holds_until(shard_of(command.subject.tenant_id), now_ms + command.ttl_ms)
            return reserved
        evaluation = evaluate(command, levels_of(fields, rest[0]), now_ms)
        if status == b"unseeded":
            return Reserved(None, unseeded=evaluation.unseeded)
        if is_full and not dry_run and not evaluation.shortfalls:
            raise outbox_full(backlog, self._options.most_events)
        return Reserved(None, evaluation.shortfalls, evaluation.shadowed)

    async def seed(
        self, tenant_id: str, moves: Sequence[WindowMove], *, at_least: bool = False
    ) -> None:
        """See `Store`."""
        by_hash: dict[str, list[WindowMove]] = {}
        for move in moves:
            by_hash.setdefault(hash_of(tenant_id, move.key), []).append(move)
        for key, some in by_hash.items():
            await self._asker.run(calls.seed(key, some, self._time.moment(), at_least=at_least))

    async def extend(
        self, record: Record, extension: Extension, limits: Limits
    ) -> ExtendedReservation:
        """See `Store`."""

        def call(record: Record, fields: Fields, moment: Moment) -> Call:
            return record_calls.extend(
                record, extension, fields, limits, self._epoch.memory, moment
            )

        (status, now_ms, *rest), fields = await self._asker.of_record(record, call)
        if status == b"forgotten":
            raise forgotten(record)
        if status == b"over":
            raise over(stored.reservation_from(rest[0]))
        found = answers.extended(fields, extension, limits, now_ms, *rest)
        self._shards.holds_until(shard_of(record.subject.tenant_id), found.reservation.expires_ms)
        return found

    async def settle(self, record: Record, report: Report, limits: Limits) -> Ended:
        """See `Store`."""

        def call(record: Record, fields: Fields, moment: Moment) -> Call:
            return record_calls.settle(record, report, fields, limits, self._epoch.memory, moment)

        ended = await self._end(record, call)
        if not ended.already:
            return ended
        ending = ended.reservation.settlement
        differs = report.usage is not None and (not ending or report.usage != ending.reported)
        return Ended(ended.reservation, already=True, conflict=differs)

    async def refund(self, record: Record, outcome: int, lifecycle: bytes, limits: Limits) -> Ended:
        """See `Store`."""

        def call(record: Record, fields: Fields, moment: Moment) -> Call:
            return record_calls.refund(
                record, outcome, lifecycle, fields, limits, self._epoch.memory, moment
            )

        return await self._end(record, call)

    async def undo(self, record: Record, limits: Limits) -> None:
        """Give an admission back that was never told: it may be asked for again.

        Does nothing if it was asked for again meanwhile, however late this call arrives.
        """

        def call(record: Record, fields: Fields, moment: Moment) -> Call:
            return record_calls.undo(record, fields, limits, self._epoch.memory, moment)

        await self._asker.of_record(record, call)

    async def lapsed(self, most: int) -> Sequence[Reservation]:
        """See `Store`."""
        await self._epoch.look()
        await self._shards.look_at_next(time.monotonic())
        moment = self._time.moment()
        await self._shorten(moment)
        return await self._expiry.lapsed(moment.now_ms, most)

    async def expire(self, reservation: Reservation, limits: Limits) -> Reservation | None:
        """See `Store`."""

        def call(record: Record, fields: Fields, moment: Moment) -> Call:
            return record_calls.expire(record, fields, limits, self._epoch.memory, moment)

        (status, now_ms, *rest), _ = await self._asker.of_record(
            Record.of(reservation, self.epoch), call
        )
        if status == b"kept":
            return None
        self._shards.has_event(shard_of(reservation.subject.tenant_id), now_ms)
        return stored.reservation_from(rest[0])

    async def find(self, tenant_id: str, reservation_id: str) -> Reservation | None:
        """See `Store`."""
        (value,) = await self._server.ask([("GET", reservation_key(tenant_id, reservation_id))])
        return None if value is None else stored.reservation_from(value)

    async def open_reservations(
        self, tenant_id: str, after: tuple[int, str], most: int
    ) -> Sequence[Reservation]:
        """See `Store`."""
        everybody = await self._expiry.all_in(shard_of(tenant_id))
        found = [
            reservation
            for reservation in everybody
            if reservation.subject.tenant_id == tenant_id
            and (reservation.created_ms, reservation.id) > after
        ]
        return sorted(found, key=lambda r: (r.created_ms, r.id))[:most]

    async def states(self, tenant_id: str, limits: Sequence[Limit]) -> Sequence[LimitState]:
        """See `Store`."""

        def asked(moment: Moment) -> Fields:
            return calls.question(tenant_id, limits, moment.now_ms)

        def call(fields: Fields, moment: Moment) -> Call:
            return calls.look(tenant_id, limits, fields, moment)

        (_, now_ms, values), fields = await self._asker.at_this_moment(asked, call)
        levels = levels_of(fields, values)
        return [limit_state(limit, levels, levels.held(limit.key), now_ms) for limit in limits]

    async def adjust(self, adjustment: Adjustment) -> Adjusted:
        """See `Store`."""
        limit, tenant_id = adjustment.limit, adjustment.subject.tenant_id
        # On a cluster a script writes where the limit is, and nowhere else.
        is_apart = self._server.is_cluster and is_shared(limit.key)
        place = NOBODY if is_apart else tenant_id

        def asked(moment: Moment) -> Fields:
            return calls.question(tenant_id, [limit], moment.now_ms)

        def call(_: Fields, moment: Moment) -> Call:
            return calls.adjust(adjustment, place, self._options.remember_ms, moment)

        (status, now_ms, *rest), fields = await self._asker.at_this_moment(asked, call)
        levels = levels_of(fields, rest[-1:])
        if status == b"bounds":
            # Raises: the script asks what the domain asks.
            adjusted_levels(adjustment, levels, now_ms)
        made = stored.grant_from(rest[0])
        if status == b"known":
            check_repeated(adjustment, made)
        else:
            self._shards.has_event(shard_of(place), now_ms)
        state = limit_state(limit, levels, levels.held(limit.key), now_ms)
        return Adjusted(state, made.units, replayed=status == b"known")

    async def outbox(self, most: int) -> Sequence[OutboxEntry]:
        """See `Store`."""
        await self._shards.look_at_next(time.monotonic())
        return await self._outbox.oldest(most)

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """See `Store`."""
        await self._outbox.acknowledge(ids)

    async def backlog(self) -> Backlog:
        """See `Store`; as seen within the last seconds."""
        await self._shards.look_at_next(time.monotonic())
        return self._shards.backlog()

    async def mark(self, tenant_id: str) -> Mark:
        """See `Store`."""
        return await self._outbox.mark(tenant_id)

    async def is_past(self, mark: Mark) -> bool:
        """See `Store`."""
        return await self._outbox.is_past(mark)

    async def close(self) -> None:
        """See `Store`."""
        await self._server.close()

    async def _end(self, record: Record, call: Callable[[Record, Fields, Moment], Call]) -> Ended:
        (status, now_ms, *rest), _ = await self._asker.of_record(record, call)
        if status == b"forgotten":
            raise forgotten(record)
        if status == b"ended":
            self._shards.has_event(shard_of(record.subject.tenant_id), now_ms)
        return Ended(stored.reservation_from(rest[0]), already=status == b"known")

    async def _shorten(self, moment: Moment) -> None:
        """After the clock went back, see that no lease lasts longer than it was given for."""
        for reservation in await self._expiry.after(moment.now_ms + LONGEST_TTL_MS):
            await self._asker.run(calls.shorten(reservation, moment))
            shard = shard_of(reservation.subject.tenant_id)
            self._shards.holds_until(shard, moment.now_ms + reservation.ttl_ms)


def _local_ms() -> int:
    return time.monotonic_ns() // 1_000_000
