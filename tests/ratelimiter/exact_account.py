"""The account as a plain model in exact fractions, written from the rules and not from the code.

Nothing here is fast, immutable or durable.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from weir_ratelimiter.domain.limit import Kind, Limit, Resource

OUTPUT = (
    Resource.TOKENS,
    Resource.OUTPUT_TOKENS,
    Resource.COST,
    Resource.IN_FLIGHT_TOKENS,
)
LONGEST_TTL_MS = 600_000
HOLD_WAIT_MS = 1_000
INPUT_NANOS, CACHED_NANOS, OUTPUT_NANOS = 3, 1, 7


@dataclass
class Gauge:
    """One bucket."""

    capacity: int
    refill: int
    period: int
    level: Fraction
    at: int

    @classmethod
    def full(cls, limit: Limit, now: int) -> "Gauge":
        shape = limit.shape
        level = Fraction(shape.capacity)
        return cls(shape.capacity, shape.refill, shape.period_ms, level, now)

    def to(self, now: int) -> "Gauge":
        if now > self.at:
            flowed = Fraction((now - self.at) * self.refill, self.period)
            self.level = min(Fraction(self.capacity), self.level + flowed)
            self.at = now
        elif self.at - now > self.period:
            self.at = now
        return self

    def wait(self, amount: int, now: int) -> int:
        missing = (amount - self.level) * self.period / self.refill
        return max(0, -(-missing.numerator // missing.denominator)) + max(0, self.at - now)

    def give(self, amount: int) -> None:
        self.level = min(Fraction(self.capacity), self.level + amount)

    def reshape(self, limit: Limit) -> "Gauge":
        raised = max(0, limit.capacity - self.capacity)
        old_parts = (self.level * limit.shape.period_ms).__floor__()
        self.level = Fraction(old_parts, limit.shape.period_ms)
        self.capacity, self.refill = limit.capacity, limit.shape.refill
        self.period = limit.shape.period_ms
        self.give(raised)
        return self


@dataclass
class Tally:
    """One window of one limit; `before` is what it was seeded with, less what was given."""

    before: int
    used: int = 0
    held: int = 0

    @property
    def taken(self) -> int:
        return self.before + self.used + self.held


@dataclass
class Part:
    """What a reservation has of one limit; `units` are debited, held or charged."""

    limit: Limit
    units: int
    window: str = ""


@dataclass
class Hold:
    """One reservation."""

    parts: dict[str, Part]
    prompt: int
    output: int
    max_new: int
    requests: int
    ttl: int
    created: int
    expires: int
    dispatched: bool = False
    progress: tuple[int, int] = (0, 0)
    state: str = "RESERVED"
    charged: tuple[int, int] = (0, 0)


@dataclass
class ExactAccount:
    """Gauges, windows, leases and holds, with the sums of invariant 2."""

    limits: dict[str, Limit] = field(default_factory=dict)
    gauges: dict[str, Gauge] = field(default_factory=dict)
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    leases: dict[str, dict[str, int]] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    debited: dict[str, int] = field(default_factory=dict)
    refunded: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    """Units whose bucket was gone with its limit when they were to be corrected."""

    def reserve(
        self,
        name: str,
        asked: dict[Resource, int],
        max_new: int,
        ttl: int,
        now: int,
    ) -> dict[str, int | None]:
        """Admit under `name`; or return what is short by key, with the wait of all but leases."""
        short: dict[str, int | None] = {}
        parts: dict[str, Part] = {}
        for limit in self.limits.values():
            amount = asked[limit.resource]
            if amount == 0:
                continue
            fits, wait = self._ask(limit, amount, now)
            if fits:
                parts[limit.key] = Part(limit, amount, window_id(limit, now))
            elif not limit.shadow:
                short[limit.key] = wait
        if short:
            self._restart_gauges(now)
            return short
        prompt, output = asked[Resource.INPUT_TOKENS], asked[Resource.OUTPUT_TOKENS]
        requests = asked[Resource.REQUESTS]
        hold = Hold(parts, prompt, output, max_new, requests, ttl, now, now + ttl)
        self.holds[name] = hold
        for key, part in parts.items():
            if part.limit.kind is Kind.LEASE:
                alive = {n: e for n, e in self.leases.get(key, {}).items() if e > now}
                self.leases[key] = alive | {name: hold.expires}
            else:
                self._take(key, part, part.units, now)
        return {}

    def extend(
        self, name: str, prompt: int, output: int, more: int, may_owe: bool, now: int
    ) -> bool:
        """Heartbeat, progress, more output; False if the further output was refused."""
        hold = self.holds[name]
        overrun = max(0, output - hold.output)
        target = min(output + more, hold.max_new)
        extra = max(0, target - max(hold.output, output))
        parts = {
            key: part
            for key, part in hold.parts.items()
            if part.limit.resource in OUTPUT and self._is_there(key, part)
        }
        refused = [
            key
            for key, part in parts.items()
            if extra and not self._has_room(key, part, overrun, extra, may_owe, now)
        ]
        extra = 0 if refused else extra
        for key, part in parts.items():
            units = _worth(part.limit.resource, overrun + extra)
            if units:
                self._take(key, part, units, now)
                part.units += units
        hold.output += overrun + extra
        hold.progress = (max(hold.progress[0], prompt), max(hold.progress[1], output))
        hold.dispatched = hold.dispatched or hold.progress != (0, 0)
        hold.expires = now + hold.ttl
        self._renew(name, hold)
        return not refused

    def end(
        self,
        name: str,
        state: Literal["SETTLED", "REFUNDED", "EXPIRED"],
        usage: tuple[int, int] | None,
        now: int,
    ) -> None:
        """Settle with a usage, or None for what was last heard; REFUNDED and EXPIRED likewise."""
        hold = self.holds[name]
        requests = hold.requests
        if state in ("REFUNDED", "EXPIRED") and not hold.dispatched:
            usage, requests = (0, 0), 0
        elif state == "REFUNDED":
            state = "SETTLED"
        if usage is None:
            usage = (max(hold.prompt, hold.progress[0]), hold.progress[1])
        for key, part in list(hold.parts.items()):
            if part.limit.kind is Kind.LEASE:
                self.leases.get(key, {}).pop(name, None)
            elif part.limit.kind is Kind.HOLD:
                self._note(key, -part.units)
                del hold.parts[key]
            elif self._is_there(key, part):
                self._charge(key, part, charge(part.limit.resource, usage, requests), hold, now)
            else:
                self.lost[key] = self.lost.get(key, 0) + part.units
                del hold.parts[key]
        hold.state, hold.charged = state, usage

    def adjust(self, limit: Limit, units: int, now: int) -> None:
        if limit.kind is Kind.WINDOW:
            self.tallies[limit.key, window_id(limit, now)].before -= units
        else:
            gauge = self.gauges[limit.key] = self._gauge(limit, now)
            gauge.give(units)

    def use(self, limits: tuple[Limit, ...]) -> None:
        self.limits = {limit.key: limit for limit in limits}

    def seed(self, key: str, window: str, used: int) -> None:
        self.tallies.setdefault((key, window), Tally(used))

    def shorten(self, now: int) -> None:
        """The sweep after a clock went back."""
        for name, hold in self.open().items():
            if hold.expires > now + LONGEST_TTL_MS:
                hold.expires = now + hold.ttl
                self._renew(name, hold)

    def lapsed(self, name: str, now: int) -> bool:
        hold = self.holds[name]
        return now >= hold.expires or any(
            name not in self.leases.get(key, {}) for key in self._lease_keys(hold)
        )

    def open(self) -> dict[str, Hold]:
        return {name: hold for name, hold in self.holds.items() if hold.state == "RESERVED"}

    def held(self, key: str, kind: Kind, window: str = "") -> int:
        """Units that open reservations have of a limit, while it is of this kind."""
        return sum(
            part.units
            for hold in self.open().values()
            if (part := hold.parts.get(key)) is not None
            and (part.limit.kind, part.window) == (kind, window)
        )

    def leases_held(self, key: str, now: int) -> int:
        return sum(expires > now for expires in self.leases.get(key, {}).values())

    def level(self, limit: Limit, now: int) -> int:
        return self._gauge(limit, now).level.__floor__()

    def free(self, limit: Limit, now: int) -> int:
        """What is left of the present window, before it is seeded too."""
        tally = self.tallies.get((limit.key, window_id(limit, now)))
        return limit.capacity - (0 if tally is None else tally.taken)

    def _ask(self, limit: Limit, amount: int, now: int) -> tuple[bool, int | None]:
        if limit.kind is Kind.LEASE:
            return self.leases_held(limit.key, now) + amount <= limit.capacity, None
        if limit.kind is Kind.WINDOW:
            assert limit.calendar is not None
            return amount <= self.free(limit, now), limit.calendar.window(now).end_ms - now
        if limit.kind is Kind.HOLD:
            return self.held(limit.key, Kind.HOLD) + amount <= limit.capacity, HOLD_WAIT_MS
        gauge = self._gauge(limit, now)
        return gauge.level >= amount, gauge.wait(amount, now)

    def _has_room(
        self, key: str, part: Part, overrun: int, extra: int, may_owe: bool, now: int
    ) -> bool:
        limit = self.limits.get(key)
        if limit is None or limit.kind is not part.limit.kind or limit.shadow:
            return True
        before, units = (_worth(part.limit.resource, n) for n in (overrun, extra))
        if limit.kind is Kind.WINDOW:
            free = limit.capacity - self.tallies[key, part.window].taken
        elif limit.kind is Kind.HOLD:
            free = limit.capacity - self.held(key, Kind.HOLD)
        else:
            free = self.level(limit, now)
        return free - before - units >= (-limit.max_debt if may_owe else 0)

    def _is_there(self, key: str, part: Part) -> bool:
        """Whether there is anything to move: a bucket that is gone with its limit is not."""
        if part.limit.kind in (Kind.WINDOW, Kind.HOLD):
            return True
        limit = self.limits.get(key)
        return key in self.gauges or (limit is not None and limit.kind is Kind.BUCKET)

    def _take(self, key: str, part: Part, units: int, now: int) -> None:
        if part.limit.kind is Kind.WINDOW:
            self.tallies[key, part.window].held += units
        elif part.limit.kind is Kind.BUCKET:
            self._move(key, part.limit, units, now)
        self._note(key, units)

    def _charge(self, key: str, part: Part, units: int, hold: Hold, now: int) -> None:
        if part.limit.kind is Kind.WINDOW:
            tally = self.tallies[key, part.window]
            first = hold.state == "RESERVED"
            tally.held -= part.units if first else 0
            tally.used += units if first else units - part.units
        else:
            self._move(key, part.limit, units - part.units, now)
        self._note(key, units - part.units)
        part.units = units

    def _gauge(self, limit: Limit, now: int) -> Gauge:
        """The gauge of a limit as it reads now; looking at it leaves no trace.

        One that was never moved is full.
        """
        if limit.key in self.gauges:
            return replace(self.gauges[limit.key]).to(now).reshape(limit)
        return Gauge.full(limit, now)

    def _restart_gauges(self, now: int) -> None:
        """A gauge whose clock went far back counts from now, once a refusal looked at it."""
        for limit in self.limits.values():
            gauge = self.gauges.get(limit.key)
            if limit.kind is Kind.BUCKET and gauge is not None and gauge.at - now > gauge.period:
                self.gauges[limit.key] = self._gauge(limit, now)

    def _move(self, key: str, then: Limit, amount: int, now: int) -> None:
        if amount == 0:
            return
        limit = self.limits.get(key)
        if limit is not None and limit.kind is then.kind:
            gauge = self._gauge(limit, now)
        else:
            gauge = replace(self.gauges[key]).to(now)
        gauge.give(-amount)
        self.gauges[key] = gauge

    def _note(self, key: str, amount: int) -> None:
        if amount > 0:
            self.debited[key] = self.debited.get(key, 0) + amount
        else:
            self.refunded[key] = self.refunded.get(key, 0) - amount

    def _renew(self, name: str, hold: Hold) -> None:
        for key in self._lease_keys(hold):
            if name in self.leases.get(key, {}):
                self.leases[key][name] = hold.expires

    @staticmethod
    def _lease_keys(hold: Hold) -> list[str]:
        return [key for key, part in hold.parts.items() if part.limit.kind is Kind.LEASE]


def window_id(limit: Limit, now: int) -> str:
    return "" if limit.calendar is None else limit.calendar.window(now).id


def charge(resource: Resource, usage: tuple[int, int], requests: int) -> int:
    prompt, completion = usage
    return {
        Resource.REQUESTS: requests,
        Resource.TOKENS: prompt + completion,
        Resource.INPUT_TOKENS: prompt,
        Resource.OUTPUT_TOKENS: completion,
        Resource.COST: prompt * INPUT_NANOS + completion * OUTPUT_NANOS,
    }[resource]


def _worth(resource: Resource, output_tokens: int) -> int:
    return output_tokens * (OUTPUT_NANOS if resource is Resource.COST else 1)
