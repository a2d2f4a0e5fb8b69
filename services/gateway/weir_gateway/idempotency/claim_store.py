"""Claims of idempotency keys in the state database, shared by all gateways."""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir.directory.v1.directory_pb2 import KeepPolicy
from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.ids import new_id
from weir_gateway.holdings.bounds import BoundOf, Held, Kind, idempotency_bound
from weir_gateway.holdings.counts import HoldingCounts
from weir_gateway.idempotency.kept_answer import KeptAnswer
from weir_gateway.idempotency.scoped_key import ScopedKey
from weir_gateway.idempotency.tables import KEPT, NOT_KEPT, RUNNING, idempotency_keys
from weir_gateway.state.state import State

_RETRY_S = 1.0
_PIECE = 500
_MOST_ON_LOOP = 50_000
_keys = idempotency_keys
_c = idempotency_keys.c
_SIZE = func.coalesce(func.length(_c.head), 0) + func.coalesce(func.length(_c.body), 0)
_LET_GO_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run the request of a key; another claim of the same key has another id."""

    id: str


class ClaimStore:
    """Every method raises WeirError(STATE_OFF or STATE_UNAVAILABLE) without a database.

    Args:
        state: the database.
        clock: wall time; gateways may differ by less than `lease_s`.
        lease_s: a claim that is not renewed for so long is free.
        keep_s: an answer is replayed for so long after its request began.
        bound_of: how much a tenant may keep. A key beyond it is refused: without its row nothing
            would say that its request runs. For an answer beyond it the oldest ones are let go.
    """

    def __init__(
        self,
        state: State,
        clock: Clock,
        *,
        lease_s: float,
        keep_s: float,
        bound_of: BoundOf = lambda _: idempotency_bound(KeepPolicy()),
    ) -> None:
        self._state = state
        self._counts = HoldingCounts(state, Kind.IDEMPOTENCY)
        self._bound_of = bound_of
        self._clock = clock
        self._lease_ms = round(lease_s * 1_000)
        self._keep_ms = round(keep_s * 1_000)

    async def claim(self, key: ScopedKey) -> Claim | KeptAnswer:
        """The right to run a request, or what it was answered before.

        Raises:
            WeirError: IDEMPOTENCY_CONFLICT, the key is that of another request, or its answer
                was not kept; IDEMPOTENCY_IN_PROGRESS, it runs; STORAGE_EXCEEDED, the tenant has
                as many keys as it may.
        """
        claim = Claim(new_id("idem", self._clock))
        now_ms = self._clock.now_ms()
        values = {
            "claim_id": claim.id,
            "fingerprint": key.fingerprint,
            "state": RUNNING,
            "lease_ms": now_ms + self._lease_ms,
            "expires_ms": now_ms + self._keep_ms,
            "status": None,
            "head": None,
            "body": None,
        }
        named = {"tenant_id": key.tenant_id, "route": key.route, "key": key.key}
        insert = self._state.insert(_keys).values(**named, **values).on_conflict_do_nothing()
        async with self._state.writing() as connection:
            if (await connection.execute(insert)).rowcount == 1:
                await self._count_key(connection, key.tenant_id)
                return claim
            row = await _row(connection, key)
            if row is None:
                raise _in_progress(key)
            if _is_free(row, now_ms):
                take = update(_keys).where(_c.claim_id == row["claim_id"]).values(**values)
                if (await connection.execute(take)).rowcount == 1:
                    size = len(row["head"] or b"") + len(row["body"] or b"")
                    if size:
                        await self._counts.add(connection, key.tenant_id, Held(size=-size))
                    return claim
                raise _in_progress(key)
        return await _told(row, key)

    async def renew(self, claims: Sequence[Claim]) -> None:
        """Puts off the end of the leases of requests that still run."""
        lease_ms = self._clock.now_ms() + self._lease_ms
        for at in range(0, len(claims), _PIECE):
            ids = [claim.id for claim in claims[at : at + _PIECE]]
            statement = update(_keys).where(_c.claim_id.in_(ids), _c.state == RUNNING)
            async with self._state.writing() as connection:
                await connection.execute(statement.values(lease_ms=lease_ms))

    async def keep(self, claim: Claim, answer: KeptAnswer | None) -> bool:
        """Keeps the answer of a claim, None for one that is too large; False if it was lost."""
        values: dict[str, object] = {"state": NOT_KEPT}
        size = 0
        if answer is not None:
            packed = await _off_loop(_packed, answer.body)
            values = {"status": answer.status, "head": answer.head, "body": packed, "state": KEPT}
            size = len(answer.head) + len(packed)
        statement = update(_keys).where(_c.claim_id == claim.id, _c.state == RUNNING)
        async with self._state.writing() as connection:
            changed = statement.values(**values).returning(_c.tenant_id)
            tenant_id = (await connection.execute(changed)).scalar()
            if tenant_id is not None and size:
                held = await self._counts.add(connection, tenant_id, Held(size=size))
                await self._let_go(connection, tenant_id, held)
            return tenant_id is not None or await _is_kept(connection, claim)

    async def free(self, claim: Claim) -> None:
        """Frees the key of a request that did not run."""
        statement = delete(_keys).where(_c.claim_id == claim.id, _c.state == RUNNING)
        async with self._state.writing() as connection:
            gone = (await connection.execute(statement.returning(_c.tenant_id))).scalars().all()
            await self._counts.remove(connection, [(tenant_id, 0) for tenant_id in gone])

    async def remove_expired(self) -> bool:
        """Removes some of what has expired; whether there may be more."""
        now_ms = self._clock.now_ms()
        ended = or_(_c.state != RUNNING, _c.lease_ms <= now_ms)
        old = select(_c.claim_id).where(_c.expires_ms <= now_ms, ended).limit(_PIECE)
        async with self._state.writing() as connection:
            found: Sequence[str] = (await connection.execute(old)).scalars().all()
            if found:
                some = delete(_keys).where(_c.claim_id.in_(found))
                gone = (await connection.execute(some.returning(_c.tenant_id, _SIZE))).all()
                await self._counts.remove(connection, [(row[0], row[1]) for row in gone])
        return len(found) == _PIECE

    async def _count_key(self, connection: AsyncConnection, tenant_id: str) -> None:
        added = Held(objects=1)
        held = await self._counts.add(connection, tenant_id, added)
        self._bound_of(tenant_id).check(Held(held.objects), added)

    async def _let_go(self, connection: AsyncConnection, tenant_id: str, held: Held) -> None:
        """Takes the oldest answers from their keys until the rest is within the bound."""
        most = self._bound_of(tenant_id).size
        assert most is not None
        over = held.size - most
        oldest = (
            select(_c.claim_id, _SIZE.label("size"))
            .where(_c.tenant_id == tenant_id, _c.state == KEPT)
            .order_by(_c.expires_ms)
            .limit(_LET_GO_AT_ONCE)
            # What another is about to remove is not waited for: it waits for this one.
            .with_for_update(skip_locked=True)
        )
        while over > 0 and (found := (await connection.execute(oldest)).all()):
            ids, freed = [], 0
            for row in found:
                if freed >= over:
                    break
                ids.append(row.claim_id)
                freed += row.size
            emptied = {"state": NOT_KEPT, "status": None, "head": None, "body": None}
            await connection.execute(update(_keys).where(_c.claim_id.in_(ids)).values(**emptied))
            await self._counts.add(connection, tenant_id, Held(size=-freed))
            over -= freed


async def _is_kept(connection: AsyncConnection, claim: Claim) -> bool:
    """Whether an earlier try was committed although its answer was lost."""
    ended = select(_c.claim_id).where(_c.claim_id == claim.id, _c.state != RUNNING)
    return (await connection.execute(ended)).first() is not None


async def _row(connection: AsyncConnection, key: ScopedKey) -> RowMapping | None:
    statement = select(_keys).where(
        _c.tenant_id == key.tenant_id, _c.route == key.route, _c.key == key.key
    )
    return (await connection.execute(statement)).mappings().one_or_none()


def _is_free(row: RowMapping, now_ms: int) -> bool:
    # What runs for longer than answers are kept is not free: it would run twice.
    ends_ms = row["lease_ms"] if row["state"] == RUNNING else row["expires_ms"]
    return bool(ends_ms <= now_ms)


async def _told(row: RowMapping, key: ScopedKey) -> KeptAnswer:
    if row["fingerprint"] != key.fingerprint:
        raise WeirError(
            Reason.IDEMPOTENCY_CONFLICT,
            f"{key.field} was used with another request, by another user, or with an API key of "
            "other models; send the same request with it, or another one",
            field=key.field,
        )
    if row["state"] == RUNNING:
        raise _in_progress(key)
    if row["state"] == NOT_KEPT:
        raise WeirError(
            Reason.IDEMPOTENCY_CONFLICT,
            f"the request of this {key.field} has run, but its answer was too large to be kept, or "
            "made room for newer ones; to run it again send another key",
            field=key.field,
        )
    body = await _off_loop(zlib.decompress, row["body"])
    return KeptAnswer(row["status"], row["head"], body)


def _in_progress(key: ScopedKey) -> WeirError:
    return WeirError(
        Reason.IDEMPOTENCY_IN_PROGRESS,
        f"the first request with this {key.field} still runs; send it again later",
        field=key.field,
        retry_after_s=_RETRY_S,
    )


def _packed(body: bytes) -> bytes:
    return zlib.compress(body, 1)


async def _off_loop(work: Callable[[bytes], bytes], data: bytes) -> bytes:
    return await asyncio.to_thread(work, data) if len(data) > _MOST_ON_LOOP else work(data)
