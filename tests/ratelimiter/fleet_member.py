"""One process of a fleet: many clients that reserve, settle and refund.

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
from typing import TypeVar

import msgspec

from tests.ratelimiter.doors import Admitted, Door, Refused, doors, until_answered
from tests.ratelimiter.race import Orders, Race, Report, Row

T = TypeVar("T")


class Client:
    """Runs one race after the other."""

    def __init__(self, number: int, orders: Orders, door: Door, report: Report) -> None:
        self._name = f"{orders.member}.{number}"
        self._door = door
        self._report = report
        self._give_up_s = orders.give_up_s
        self._dice = random.Random(f"{orders.seed}/{self._name}")
        self._races = orders.races

    async def run(self) -> None:
        for race in self._races:
            names = [f"{race.name}-{self._name}-{number}" for number in range(race.attempts)]
            await asyncio.gather(*(self._request(race, name) for name in names))

    async def _request(self, race: Race, name: str) -> None:
        prompt = self._dice.randint(1, race.most_tokens)
        output = self._dice.randint(1, race.most_tokens)

        def reserve() -> Awaitable[Admitted]:
            return self._door.reserve(name, race.who, prompt, output)

        try:
            admitted = await self._answer(reserve)
        except Refused:
            self._report.refused[race.name] = self._report.refused.get(race.name, 0) + 1
            return
        admitted_ns = time.monotonic_ns()
        if self._dice.random() < 0.2:
            again = await self._answer(reserve)
            self._expect(again.replayed and again.id == admitted.id, f"{name}: reserved twice")
        await asyncio.sleep(self._dice.uniform(0, race.hold_ms / 1_000))
        give_back = self._dice.random() < 0.25
        row = Row(
            race=race.name,
            request_id=name,
            reservation_id=admitted.id,
            admitted_ns=admitted_ns,
            ended_ns=time.monotonic_ns(),
            requests=0 if give_back else 1,
            prompt=0 if give_back else prompt,
            completion=0 if give_back else self._dice.randint(0, output),
        )
        self._report.rows.append(row)
        await (self._refund if give_back else self._settle)(admitted.record, row)

    async def _settle(self, record: bytes, row: Row) -> None:
        """Settles, often twice at once, and sometimes once more with another count."""
        calls = 2 if self._dice.random() < 0.3 else 1
        ends = await asyncio.gather(
            *(
                self._answer(lambda: self._door.settle(record, row.prompt, row.completion))
                for _ in range(calls)
            )
        )
        if self._dice.random() < 0.1:
            other = await self._answer(lambda: self._door.settle(record, row.prompt + 7, 0))
            self._expect(other.conflict, f"{row.request_id}: another count was no conflict")
            ends.append(other)
        for end in ends:
            told = (end.prompt, end.completion)
            self._expect(told == (row.prompt, row.completion), f"{row} was charged {told}")

    async def _refund(self, record: bytes, row: Row) -> None:
        calls = 2 if self._dice.random() < 0.3 else 1
        for end in await asyncio.gather(
            *(self._answer(lambda: self._door.refund(record)) for _ in range(calls))
        ):
            self._expect(end.refunded, f"{row} was not given back: {end}")

    def _expect(self, kept: bool, otherwise: str) -> None:
        if not kept:
            self._report.faults.append(otherwise)

    async def _answer(self, call: Callable[[], Awaitable[T]]) -> T:
        return await until_answered(call, give_up_s=self._give_up_s, unheard=self._unheard)

    def _unheard(self) -> None:
        self._report.repeated += 1


async def run(orders: Orders) -> Report:
    """All clients of this process to their end."""
    report = Report()
    async with doors(orders) as ways, asyncio.TaskGroup() as group:
        for number in range(orders.clients):
            door = ways[(orders.member + number) % len(ways)]
            group.create_task(Client(number, orders, door, report).run())
    names = Counter(row.request_id for row in report.rows)
    report.faults += [f"{name}: admitted twice" for name, count in names.items() if count > 1]
    return report


def main() -> None:
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=Orders)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(run(orders))))


if __name__ == "__main__":
    main()
