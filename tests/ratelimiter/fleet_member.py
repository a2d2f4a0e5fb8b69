"""One process of a fleet: many clients that reserve, extend, settle and refund.

Every call is repeated until it is answered, as a gateway repeats it, so that whatever happens
to the ratelimiter and its store the client knows in the end what became of its request.
`python -m tests.ratelimiter.fleet_member` reads its orders from stdin and writes its report to
stdout.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
import msgspec
from pydantic import SecretStr

from tests.ratelimiter.race import Orders, Race, Report, Row
from weir.common.v1.lifecycle_pb2 import OUTCOME_OK, OUTCOME_SHED
from weir.common.v1.subject_pb2 import Subject
from weir.common.v1.usage_pb2 import USAGE_QUALITY_EXACT, Usage
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.rpc.channel import open_channel

T = TypeVar("T")

_CALL_S = 5.0
_NO_ANSWER = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)
_REFUSED = grpc.StatusCode.RESOURCE_EXHAUSTED


class Client:
    """Runs one race after the other."""

    def __init__(self, number: int, orders: Orders, stub: Any, report: Report) -> None:
        self._name = f"{orders.member}.{number}"
        self._stub = stub
        self._report = report
        self._give_up_s = orders.give_up_s
        self._dice = random.Random(f"{orders.seed}/{self._name}")
        self._races = list(orders.races)

    async def run(self) -> None:
        for race in self._races:
            names = [f"{race.name}-{self._name}-{number}" for number in range(race.attempts)]
            await asyncio.gather(*(self._request(race, name) for name in names))

    async def _request(self, race: Race, request_id: str) -> None:
        prompt = self._dice.randint(1, race.most_tokens)
        output = self._dice.randint(1, race.most_tokens)
        ask = pb.ReserveRequest(
            request_id=request_id,
            subject=_subject(race),
            prompt_tokens=prompt,
            max_new_tokens=output,
        )
        try:
            reply = await self._answer(lambda: self._stub.Reserve(ask, timeout=_CALL_S))
        except grpc.aio.AioRpcError as error:
            if error.code() is not _REFUSED:
                raise
            self._report.refused[race.name] = self._report.refused.get(race.name, 0) + 1
            return
        admitted_ns = time.monotonic_ns()
        if self._dice.random() < 0.2:
            await self._reserve_again(ask, reply)
        await asyncio.sleep(self._dice.uniform(0, race.hold_ms / 1_000))
        give_back = self._dice.random() < 0.25
        completion = self._dice.randint(0, output)
        row = Row(
            race=race.name,
            request_id=request_id,
            reservation_id=reply.reservation_id,
            admitted_ns=admitted_ns,
            ended_ns=time.monotonic_ns(),
            requests=0 if give_back else 1,
            prompt=0 if give_back else prompt,
            completion=0 if give_back else completion,
        )
        self._report.rows.append(row)
        await (self._refund(reply.record) if give_back else self._settle(reply.record, row))

    async def _reserve_again(self, ask: pb.ReserveRequest, first: pb.ReserveResponse) -> None:
        again = await self._answer(lambda: self._stub.Reserve(ask, timeout=_CALL_S))
        if again.reservation_id != first.reservation_id or not again.replayed:
            self._report.faults.append(f"{ask.request_id}: reserved a second time")

    async def _settle(self, record: bytes, row: Row) -> None:
        """Settles, often twice at once, and sometimes once more with another count."""
        usage = Usage(
            prompt_tokens=row.prompt, completion_tokens=row.completion, total_tokens=row.tokens
        )
        calls = 2 if self._dice.random() < 0.3 else 1
        replies = await asyncio.gather(
            *(
                self._answer(lambda: self._stub.Settle(_settle(record, usage), timeout=_CALL_S))
                for _ in range(calls)
            )
        )
        if self._dice.random() < 0.1:
            other = Usage(prompt_tokens=row.prompt + 7, total_tokens=row.prompt + 7)
            late = await self._answer(
                lambda: self._stub.Settle(_settle(record, other), timeout=_CALL_S)
            )
            if not late.conflict:
                self._report.faults.append(f"{row.request_id}: another count was no conflict")
            replies.append(late)
        for reply in replies:
            charged = reply.settlement.charged
            if (charged.prompt_tokens, charged.completion_tokens) != (row.prompt, row.completion):
                self._report.faults.append(f"{row.request_id}: charged {charged}, not {row}")

    async def _refund(self, record: bytes) -> None:
        refund = pb.RefundRequest(record=record, outcome=OUTCOME_SHED)
        calls = 2 if self._dice.random() < 0.3 else 1
        replies = await asyncio.gather(
            *(
                self._answer(lambda: self._stub.Refund(refund, timeout=_CALL_S))
                for _ in range(calls)
            )
        )
        for reply in replies:
            if reply.settlement.state != pb.RESERVATION_STATE_REFUNDED:
                state = pb.ReservationState.Name(reply.settlement.state)
                self._report.faults.append(f"{reply.settlement.reservation_id}: refund: {state}")

    async def _answer(self, call: Callable[[], Awaitable[T]]) -> T:
        """Makes a call until it is answered; raises what it was refused with."""
        end = time.monotonic() + self._give_up_s
        delay_s = 0.02
        while True:
            try:
                return await call()
            except grpc.aio.AioRpcError as error:
                if error.code() not in _NO_ANSWER or time.monotonic() > end:
                    raise
            self._report.repeated += 1
            await asyncio.sleep(delay_s * self._dice.uniform(0.5, 1.5))
            delay_s = min(0.5, delay_s * 2)


def _subject(race: Race) -> Subject:
    who = race.who
    return Subject(tenant_id=who.tenant, user_id=who.user, api_key_id=who.key, model=who.model)


def _settle(record: bytes, usage: Usage) -> pb.SettleRequest:
    return pb.SettleRequest(
        record=record, usage=usage, usage_quality=USAGE_QUALITY_EXACT, outcome=OUTCOME_OK
    )


async def run(orders: Orders) -> Report:
    """All clients of this process to their end."""
    report = Report()
    channels = [
        open_channel(address, name="ratelimiter", token=SecretStr(orders.token))
        for address in orders.addresses
    ]
    try:
        stubs = [RateLimiterServiceStub(channel) for channel in channels]
        clients = [
            Client(number, orders, stubs[(orders.member + number) % len(stubs)], report)
            for number in range(orders.clients)
        ]
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.run())
    finally:
        for channel in channels:
            await channel.close()
    doubled = [name for name, n in Counter(row.request_id for row in report.rows).items() if n > 1]
    report.faults.extend(f"{name}: admitted twice" for name in doubled)
    return report


def main() -> None:
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=Orders)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(run(orders))))


if __name__ == "__main__":
    main()
