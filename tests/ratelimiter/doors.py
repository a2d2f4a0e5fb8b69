"""Ways of clients to an account: over gRPC, or a limiter of their own on a shared store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import grpc
import msgspec
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from tests.ratelimiter.race import Orders, Who
from weir.common.v1.lifecycle_pb2 import OUTCOME_OK, OUTCOME_SHED
from weir.common.v1.subject_pb2 import Subject as SubjectMessage
from weir.common.v1.usage_pb2 import USAGE_QUALITY_EXACT
from weir.common.v1.usage_pb2 import Usage as UsageMessage
from weir.directory.v1.directory_pb2 import Snapshot
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.clock import SystemClock
from weir_core.directory import DirectoryIndex
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_core.rpc.channel import open_channel
from weir_core.tasks import end_task
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.settlement import Report as EndReport
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.store.base import Ended
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore

T = TypeVar("T")

_CALL_S = 5.0
# No lease lapses in a race, however long its client goes unanswered.
_TTL_MS = 300_000
_SWEEP_S = 0.5
_NO_ANSWER = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)


class Refused(Exception):
    """A limit refused."""


class NoAnswer(Exception):
    """The account could not be asked; whether it decided is not known."""


class Admitted(msgspec.Struct, frozen=True):
    """A reservation, as its client gets it."""

    id: str
    record: bytes
    replayed: bool


class Charged(msgspec.Struct, frozen=True):
    """The end of a reservation, as its client is told it."""

    prompt: int
    completion: int
    refunded: bool
    conflict: bool = False


class Door(Protocol):
    """One call each; raises Refused or NoAnswer."""

    async def reserve(self, name: str, who: Who, prompt: int, output: int) -> Admitted: ...

    async def settle(self, record: bytes, prompt: int, completion: int) -> Charged: ...

    async def refund(self, record: bytes) -> Charged: ...


class GrpcDoor:
    """A ratelimiter process."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: Any = RateLimiterServiceStub(channel)

    async def reserve(self, name: str, who: Who, prompt: int, output: int) -> Admitted:
        request = pb.ReserveRequest(
            request_id=name,
            subject=SubjectMessage(
                tenant_id=who.tenant, user_id=who.user, api_key_id=who.key, model=who.model
            ),
            prompt_tokens=prompt,
            max_new_tokens=output,
        )
        reply = await _told(self._stub.Reserve(request, timeout=_CALL_S))
        return Admitted(reply.reservation_id, reply.record, reply.replayed)

    async def settle(self, record: bytes, prompt: int, completion: int) -> Charged:
        request = pb.SettleRequest(
            record=record,
            usage=UsageMessage(
                prompt_tokens=prompt,
                completion_tokens=completion,
                total_tokens=prompt + completion,
            ),
            usage_quality=USAGE_QUALITY_EXACT,
            outcome=OUTCOME_OK,
        )
        reply = await _told(self._stub.Settle(request, timeout=_CALL_S))
        return _charged_of(reply.settlement, conflict=reply.conflict)

    async def refund(self, record: bytes) -> Charged:
        request = pb.RefundRequest(record=record, outcome=OUTCOME_SHED)
        reply = await _told(self._stub.Refund(request, timeout=_CALL_S))
        return _charged_of(reply.settlement)


class StoreDoor:
    """A limiter in this process, on a store that others share."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    async def reserve(self, name: str, who: Who, prompt: int, output: int) -> Admitted:
        subject = Subject(who.tenant, who.user, who.key, who.model, "")
        admission = await _decided(self._limiter.reserve(Ask(name, subject, prompt, output)))
        assert admission.reservation is not None
        return Admitted(admission.reservation.id, admission.record, admission.replayed)

    async def settle(self, record: bytes, prompt: int, completion: int) -> Charged:
        report = EndReport(Usage(prompt, 0, completion), Quality.EXACT, OUTCOME_OK)
        return _charge_told(await _decided(self._limiter.settle(record, report)))

    async def refund(self, record: bytes) -> Charged:
        return _charge_told(await _decided(self._limiter.refund(record, OUTCOME_SHED, b"")))


@asynccontextmanager
async def doors(orders: Orders) -> AsyncIterator[Sequence[Door]]:
    """The ways that the clients of a process have."""
    if orders.store:
        async with _store_door(orders) as door:
            yield [door]
        return
    channels = [
        open_channel(address, name="ratelimiter", token=SecretStr(orders.token))
        for address in orders.addresses
    ]
    try:
        yield [GrpcDoor(channel) for channel in channels]
    finally:
        for channel in channels:
            await channel.close()


@asynccontextmanager
async def _store_door(orders: Orders) -> AsyncIterator[StoreDoor]:
    clock = SystemClock()
    options = RedisOptions(timeout_s=orders.store_timeout_s)
    store = await until_answered(
        lambda: _decided(RedisStore.open(orders.store, options)), give_up_s=orders.give_up_s
    )
    limiter = Limiter(
        store,
        RecordSigner(orders.token.encode()),
        now_ms=clock.now_ms,
        default_ttl_ms=_TTL_MS,
        metrics=LimiterMetrics(CollectorRegistry()),
    )
    limiter.use(LimitBook(DirectoryIndex(Snapshot.FromString(orders.directory))))
    sweep = asyncio.create_task(_sweep(limiter))
    try:
        yield StoreDoor(limiter)
    finally:
        await end_task(sweep)
        await store.close()


async def _sweep(limiter: Limiter) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        with contextlib.suppress(WeirError):
            await limiter.sweep()


async def _told(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        if error.code() in _NO_ANSWER:
            raise NoAnswer(error.details()) from None
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise Refused from None
        raise


async def _decided(call: Awaitable[T]) -> T:
    try:
        return await call
    except LimitExceeded:
        raise Refused from None
    except WeirError as error:
        if error.reason is Reason.LIMITER_UNAVAILABLE:
            raise NoAnswer(error.message) from None
        raise


def _charged_of(settlement: pb.Settlement, *, conflict: bool = False) -> Charged:
    usage = settlement.charged
    refunded = settlement.state == pb.RESERVATION_STATE_REFUNDED
    return Charged(usage.prompt_tokens, usage.completion_tokens, refunded, conflict)


def _charge_told(ended: Ended) -> Charged:
    settlement = ended.reservation.settlement
    assert settlement is not None
    charged = settlement.charged
    refunded = ended.reservation.state.name == "REFUNDED"
    return Charged(charged.prompt_tokens, charged.completion_tokens, refunded, ended.conflict)


async def until_answered(
    call: Callable[[], Awaitable[T]],
    *,
    give_up_s: float,
    unheard: Callable[[], None] = lambda: None,
) -> T:
    """Makes a call until it is answered, as a gateway does."""
    loop = asyncio.get_running_loop()
    end, delay_s = loop.time() + give_up_s, 0.02
    while True:
        try:
            return await call()
        except NoAnswer:
            if loop.time() > end:
                raise
        unheard()
        await asyncio.sleep(delay_s)
        delay_s = min(0.5, delay_s * 2)
