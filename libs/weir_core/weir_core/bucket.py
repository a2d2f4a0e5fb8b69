"""Token bucket with continuous refill, in exact integer arithmetic.

A level is whole units and a remainder of a unit, counted in `period_ms` parts: one millisecond
adds exactly `refill` parts, so nothing is ever lost or minted, however often a bucket is read.
Levels are signed: below zero is debt, which refill repays first.

Source: Turner, "New directions in communications" (1986), leaky bucket as a meter, with the
refill rate as an integer fraction.
"""

from typing import Self

import msgspec

from weir_core.errors import InvalidField

MAX_UNITS = 2**53 - 1
"""Largest amount, capacity or refill: integers up to here survive JSON and Lua."""

MAX_PERIOD_MS = 366 * 24 * 3600 * 1000


def check_units(field: str, value: object, lowest: int = 0) -> int:
    """Return `value` if it is an integer in `lowest`..2^53-1, not a bool.

    Raises:
        InvalidField: naming `field`, the value and the bound.
    """
    if type(value) is not int or not lowest <= value <= MAX_UNITS:
        raise InvalidField(field, value, f"an integer from {lowest} to 2^53-1")
    return value


class BucketState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Content of a bucket at a moment.

    Attributes:
        level: whole units, rounded down; negative in debt.
        parts: the rest, in units / period_ms; 0 to period_ms - 1.
        at_ms: moment up to which refill is counted, Unix or monotonic milliseconds.
    """

    level: int
    parts: int
    at_ms: int


class BucketShape(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Size and speed of a bucket; `of` validates.

    Attributes:
        capacity: largest level, units.
        refill: units that flow in during each `period_ms`.
        period_ms: milliseconds.
    """

    capacity: int
    refill: int
    period_ms: int

    @classmethod
    def of(cls, capacity: object, refill: object, period_ms: object) -> Self:
        """Build a shape from untrusted numbers.

        Raises:
            InvalidField: a number is no integer or out of bounds.
        """
        if type(period_ms) is not int or not 1 <= period_ms <= MAX_PERIOD_MS:
            raise InvalidField("period", period_ms, "from 1 millisecond to 366 days")
        return cls(check_units("capacity", capacity), check_units("refill", refill), period_ms)

    def full(self, now_ms: int) -> BucketState:
        """A bucket filled to its capacity at `now_ms`."""
        return BucketState(self.capacity, 0, now_ms)

    def refilled(self, state: BucketState, now_ms: int) -> BucketState:
        """The bucket at `now_ms`.

        A clock that went back adds nothing. By less than a period, the moment of the state
        stays, and nothing flows in until the clock has caught up; by more, counting starts
        again at `now_ms`, so that nobody is locked out for longer than one period.
        """
        elapsed = now_ms - state.at_ms
        if elapsed > 0:
            units, parts = divmod(elapsed * self.refill + state.parts, self.period_ms)
            level = state.level + units
            if level >= self.capacity:
                return BucketState(self.capacity, 0, now_ms)
            return BucketState(level, parts, now_ms)
        if elapsed < -self.period_ms:
            return BucketState(state.level, state.parts, now_ms)
        return state

    def level(self, state: BucketState) -> int:
        """Whole units in the bucket, negative in debt; `state` is refilled by the caller."""
        return state.level

    def is_full(self, state: BucketState) -> bool:
        """Whether nothing more flows in; `state` is refilled by the caller."""
        return state.level >= self.capacity

    def debited(self, state: BucketState, amount: int) -> BucketState:
        """The bucket with `amount` units taken out, into debt if need be.

        Debt stops at 2^53-1: deeper, single units would be lost in Lua and JSON.
        """
        return BucketState(max(state.level - amount, -MAX_UNITS), state.parts, state.at_ms)

    def credited(self, state: BucketState, amount: int) -> BucketState:
        """The bucket with `amount` units put back, never above capacity.

        Refill first: what is put back must not displace what has flowed in meanwhile.
        """
        level = state.level + amount
        if level >= self.capacity:
            return BucketState(self.capacity, 0, state.at_ms)
        return BucketState(level, state.parts, state.at_ms)

    def wait_ms(self, state: BucketState, amount: int) -> int | None:
        """Milliseconds from `state.at_ms` until `amount` units fit; None if they never will."""
        if amount <= state.level:
            return 0
        if amount > self.capacity or self.refill == 0:
            return None
        missing = (amount - state.level) * self.period_ms - state.parts
        return -(-missing // self.refill)

    def take(self, state: BucketState, amount: int, now_ms: int) -> tuple[BucketState, int | None]:
        """Take `amount` units if they are there.

        Returns:
            The bucket afterwards, and 0 if the units were taken, else the milliseconds from
            `now_ms` until they fit, None if they never will.
        """
        current = self.refilled(state, now_ms)
        wait = self.wait_ms(current, amount)
        if wait == 0:
            return self.debited(current, amount), 0
        return current, None if wait is None else wait + max(0, current.at_ms - now_ms)

    def reshaped(self, state: BucketState, new: "BucketShape") -> BucketState:
        """The bucket after its limit changed to `new`, its use kept.

        A raise adds the difference, a cut clamps to the new capacity; debt stays.
        """
        parts = state.parts * new.period_ms // self.period_ms
        raised = max(0, new.capacity - self.capacity)
        return new.credited(BucketState(state.level, parts, state.at_ms), raised)
