"""The account as a plain model in exact fractions, written from the rules and not from the code.

Nothing here is fast, immutable or durable.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction

from weir_ratelimiter.domain.limit import Kind, Limit, Resource
from weir_ratelimiter.domain.reservation import LONGEST_TTL_MS

OUTPUT = (Resource.TOKENS, Resource.OUTPUT_TOKENS)


@dataclass
class Gauge:
    """One bucket."""

    capacity: int
    refill: int
    period: int
    level: Fraction
    at: int

    def to(self, now: int) -> "Gauge":
        if now > self.at:
            flowed = Fraction((now - self.at) * self.refill, self.period)
            self.level = min(Fraction(self.capacity), self.level + flowed)
            self.at = now
        elif self.at - now > self.period or self.level >= self.capacity:
            self.at = now
        return self

    def wait(self, amount: int, now: int) -> int:
        missing = (amount - self.level) * self.period / self.refill
        return max(0, -(-missing.numerator // missing.denominator)) + max(0, self.at - now)

    def reshape(self, limit: Limit) -> None:
        raised = max(0, limit.capacity - self.capacity)
        old_parts = (self.level * limit.shape.period_ms).__floor__()
        self.level = Fraction(old_parts, limit.shape.period_ms) + raised
        self.capacity, self.refill = limit.capacity, limit.shape.refill
        self.period = limit.shape.period_ms
        self.level = min(self.level, Fraction(self.capacity))


@dataclass
class Hold:
    """One reservation."""

    amounts: dict[str, tuple[Limit, int]]
    prompt: int
    output: int
    max_new: int
    ttl: int
    expires: int
    dispatched: bool = False
    progress: tuple[int, int] = (0, 0)
    state: str = "RESERVED"
    charged: tuple[int, int] = (0, 0)


@dataclass
class ExactAccount:
    """Gauges, leases and holds, with the sums of invariant 2."""

    limits: dict[str, Limit] = field(default_factory=dict)
    gauges: dict[str, Gauge] = field(default_factory=dict)
    leases: dict[str, dict[str, int]] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    debited: dict[str, int] = field(default_factory=dict)
    refunded: dict[str, int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)

    def reserve(
        self,
        name: str,
        asked: dict[Resource, int],
        max_new: int,
        ttl: int,
        now: int,
    ) -> dict[str, int | None]:
        """Admit under `name`; or return what is short by key, with the wait of buckets."""
        short: dict[str, int | None] = {}
        taken: dict[str, tuple[Limit, int]] = {}
        for limit in self.limits.values():
            amount = asked[limit.resource]
            if amount == 0:
                continue
            fits, wait = self._ask(limit, amount, now)
            if fits:
                taken[limit.key] = (limit, amount)
            elif not limit.shadow:
                short[limit.key] = wait
        if not short:
            prompt, output = asked[Resource.INPUT_TOKENS], asked[Resource.OUTPUT_TOKENS]
            hold = Hold(taken, prompt, output, max_new, ttl, now + ttl)
            self.holds[name] = hold
            for key, (limit, amount) in taken.items():
                if limit.kind is Kind.BUCKET:
                    self._move(key, amount, now)
                else:
                    alive = {n: e for n, e in self.leases.get(key, {}).items() if e > now}
                    self.leases[key] = alive | {name: hold.expires}
        else:
            self._restart_gauges(now)
        return short

    def extend(
        self, name: str, prompt: int, output: int, more: int, may_owe: bool, now: int
    ) -> bool:
        """Heartbeat, progress, more output; False if the further output was refused."""
        hold = self.holds[name]
        overrun = max(0, output - hold.output)
        target = min(output + more, hold.max_new)
        extra = max(0, target - max(hold.output, output))
        buckets = [
            (key, self.limits[key])
            for key, (limit, _) in hold.amounts.items()
            if limit.kind is Kind.BUCKET and limit.resource in OUTPUT
        ]
        for _, limit in buckets if extra else ():
            left = self._gauge(limit, now).level.__floor__() - overrun - extra
            allowed = -limit.max_debt if may_owe else 0
            if left < allowed and not limit.shadow:
                extra = 0
                granted = False
                break
        else:
            granted = True
        for key, limit in buckets:
            if overrun + extra:
                self._move(key, overrun + extra, now)
                hold.amounts[key] = (limit, hold.amounts[key][1] + overrun + extra)
        hold.output += overrun + extra
        hold.progress = (max(hold.progress[0], prompt), max(hold.progress[1], output))
        hold.dispatched = hold.dispatched or hold.progress != (0, 0)
        hold.expires = now + hold.ttl
        for key in self._lease_keys(hold):
            self.leases[key][name] = hold.expires
        return granted

    def end(self, name: str, state: str, usage: tuple[int, int] | None, now: int) -> None:
        """Settle with a usage, or None for what was last heard; REFUNDED and EXPIRED likewise."""
        hold = self.holds[name]
        first = hold.state == "RESERVED"
        requests = 1
        if state in ("REFUNDED", "EXPIRED") and not hold.dispatched:
            usage, requests = (0, 0), 0
        elif state == "REFUNDED":
            state = "SETTLED"
        if usage is None:
            usage = (max(hold.prompt, hold.progress[0]), hold.progress[1])
        for key, (limit, amount) in hold.amounts.items():
            if limit.kind is Kind.BUCKET:
                charge = _charge(limit.resource, usage, requests)
                self._move(key, charge - amount, now)
                before = 0 if first else amount
                self.settled[key] = self.settled.get(key, 0) + charge - before
                hold.amounts[key] = (limit, charge)
        for key in self._lease_keys(hold):
            self.leases.get(key, {}).pop(name, None)
        hold.state, hold.charged = state, usage

    def use(self, limits: tuple[Limit, ...]) -> None:
        self.limits = {limit.key: limit for limit in limits}

    def shorten(self, now: int) -> None:
        """The sweep after a clock went back."""
        for name, hold in self.open().items():
            if hold.expires > now + LONGEST_TTL_MS:
                hold.expires = now + hold.ttl
                for key in self._lease_keys(hold):
                    if name in self.leases.get(key, {}):
                        self.leases[key][name] = hold.expires

    def lapsed(self, name: str, now: int) -> bool:
        hold = self.holds[name]
        return now >= hold.expires or any(
            name not in self.leases.get(key, {}) for key in self._lease_keys(hold)
        )

    def open(self) -> dict[str, Hold]:
        return {name: hold for name, hold in self.holds.items() if hold.state == "RESERVED"}

    def held(self, key: str) -> int:
        return sum(hold.amounts[key][1] for hold in self.open().values() if key in hold.amounts)

    def leases_held(self, key: str, now: int) -> int:
        return sum(expires > now for expires in self.leases.get(key, {}).values())

    def level(self, limit: Limit, now: int) -> int:
        return self._gauge(limit, now).level.__floor__()

    def _ask(self, limit: Limit, amount: int, now: int) -> tuple[bool, int | None]:
        if limit.kind is Kind.LEASE:
            return self.leases_held(limit.key, now) + amount <= limit.capacity, None
        gauge = self._gauge(limit, now)
        return gauge.level >= amount, gauge.wait(amount, now)

    def _gauge(self, limit: Limit, now: int) -> Gauge:
        """The gauge of a limit as it reads now; looking at it leaves no trace.

        One that was never moved is full.
        """
        if limit.key in self.gauges:
            gauge = replace(self.gauges[limit.key]).to(now)
            gauge.reshape(limit)
            return gauge
        shape = limit.shape
        full = Fraction(shape.capacity)
        return Gauge(shape.capacity, shape.refill, shape.period_ms, full, now)

    def _restart_gauges(self, now: int) -> None:
        """A gauge whose clock went far back counts from now, once a refusal looked at it."""
        for limit in self.limits.values():
            gauge = self.gauges.get(limit.key)
            if gauge is not None and gauge.at - now > gauge.period:
                self.gauges[limit.key] = self._gauge(limit, now)

    def _move(self, key: str, amount: int, now: int) -> None:
        if amount == 0:
            return
        gauge = self.gauges[key] = self._gauge(self.limits[key], now)
        gauge.level = min(Fraction(gauge.capacity), gauge.level - amount)
        if amount > 0:
            self.debited[key] = self.debited.get(key, 0) + amount
        else:
            self.refunded[key] = self.refunded.get(key, 0) - amount

    @staticmethod
    def _lease_keys(hold: Hold) -> list[str]:
        return [key for key, (limit, _) in hold.amounts.items() if limit.kind is Kind.LEASE]


def _charge(resource: Resource, usage: tuple[int, int], requests: int) -> int:
    return {
        Resource.REQUESTS: requests,
        Resource.TOKENS: sum(usage),
        Resource.INPUT_TOKENS: usage[0],
        Resource.OUTPUT_TOKENS: usage[1],
    }[resource]
