"""Candidates with clocks of their own, and a store whose messages come late, never or twice."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from weir_scheduler.leadership.lease import Bid, Lease, LeaseTimes

TTL_US = 4_000_000
DRIFT = 0.05


class Trusting(LeaseTimes):
    """Negative control: a holder that trusts its lease for as long as others wait, and more."""

    @property
    def certain_us(self) -> int:
        return self.ttl_us * 5 // 4


@dataclass
class Store:
    """Compare-and-set, as the script does it."""

    held: str = ""

    def bid(self, bid: Bid) -> str:
        self.held = self.held or bid.vacancy
        if bid.expected and self.held == bid.expected:
            self.held = bid.value
        return self.held


@dataclass
class Candidate:
    """A process: its clock runs at its own rate from its own start, and jumps forward at will."""

    lease: Lease
    offset_us: int
    rate: float

    def now_us(self, true_us: int) -> int:
        return self.offset_us + int(true_us * self.rate)

    def active(self, true_us: int) -> bool:
        return self.lease.active(self.now_us(true_us))


@dataclass
class World:
    """Moved by hand, one event at a time; `check` after each."""

    candidates: list[Candidate]
    store: Store = field(default_factory=Store)
    true_us: int = 0
    asked: list[tuple[int, Bid]] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)
    terms: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def of(cls, rates: list[float], times: type[LeaseTimes] = LeaseTimes) -> "World":
        """Candidates of these rates, 1 within `DRIFT`; their wall clocks differ by a second."""
        world = cls([])
        for number, rate in enumerate(rates):
            lease = Lease(f"s{number}", f"host{number}:1", times(TTL_US), world.wall_ms(number))
            world.candidates.append(Candidate(lease, 10**9 * number, rate))
        return world

    def wall_ms(self, number: int) -> Callable[[], int]:
        """The wall clock of a candidate."""
        return lambda: 10**12 + self.true_us // 1_000 - 300 * number

    def advance(self, us: int) -> None:
        self.true_us += us
        self.check()

    def ask(self, number: int) -> None:
        candidate = self.candidates[number]
        self.asked.append((number, candidate.lease.next_bid(candidate.now_us(self.true_us))))
        self.check()

    def execute(self, index: int, *, keep: bool = False) -> None:
        """The store gets a message; with `keep` it will get it once more."""
        if not self.asked:
            return
        index %= len(self.asked)
        number, bid = self.asked[index] if keep else self.asked.pop(index)
        self.answers.append((number, self.store.bid(bid)))

    def answer(self, index: int, *, lost: bool = False) -> None:
        if not self.answers:
            return
        number, held = self.answers.pop(index % len(self.answers))
        if not lost:
            candidate = self.candidates[number]
            candidate.lease.answered(held, candidate.now_us(self.true_us))
        self.check()

    def exchange(self, number: int) -> None:
        """A call without trouble."""
        self.ask(number)
        self.execute(len(self.asked) - 1)
        self.answer(len(self.answers) - 1)

    def flush(self) -> None:
        """The store forgets everything."""
        self.store.held = ""

    def active(self) -> list[int]:
        return [n for n, one in enumerate(self.candidates) if one.active(self.true_us)]

    def check(self) -> None:
        """Never two at one true moment; and an epoch belongs to one holder."""
        active = self.active()
        assert len(active) <= 1, f"{active} at {self.true_us}"
        for number in active:
            self.terms.add((self.candidates[number].lease.epoch, number))
        epochs = [epoch for epoch, _ in self.terms]
        assert len(epochs) == len(set(epochs)), sorted(self.terms)


def adversity(world: World, dice: random.Random, events: int) -> None:
    """Random events: whoever likes asks at any time, messages cross, are lost and repeated."""
    for _ in range(events):
        number = dice.randrange(len(world.candidates))
        match dice.randrange(12):
            case 0 | 1 | 2:
                world.advance(dice.choice([1_000, TTL_US // 8, TTL_US // 3, TTL_US, 3 * TTL_US]))
            case 3 | 4 | 5:
                world.exchange(number)
            case 6:
                world.ask(number)
            case 7:
                world.execute(dice.randrange(100), keep=dice.random() < 0.2)
            case 8:
                world.answer(dice.randrange(100), lost=dice.random() < 0.3)
            case 9:
                candidate = world.candidates[number]
                candidate.lease.release(candidate.now_us(world.true_us))
            case 10:
                candidate = world.candidates[number]
                freed = candidate.lease.release(candidate.now_us(world.true_us))
                if freed is not None:
                    world.asked.append((number, freed))
            case 11 if dice.random() < 0.3:
                world.flush()
