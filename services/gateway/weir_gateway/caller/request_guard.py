"""The cheap request-rate check right after authentication.

A local mirror of the caller's own request buckets: a flood is refused before the template and
the tokenizer run. `Reserve` decides; with several gateways each mirror lets the whole rate
through. What is not decided yet does not count as used: `Reserve` may refuse it for another
limit. Only how many may be undecided beyond the level is bounded.

Calls that reserve nothing have mirrors of their own: in those of generations they would take
places that `Reserve` still has.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from weir.directory.v1.directory_pb2 import Limit, LimitKind, LimitResource
from weir_core.bucket import BucketShape, BucketState
from weir_core.clock import Clock
from weir_core.directory import DirectoryIndex, ScopedLimit
from weir_core.errors import Violation
from weir_core.errors.refusal import rate_allowance, refused_for_now, requests_per
from weir_gateway.caller.caller import Caller
from weir_gateway.directory.follower import Directory

_MAX_BUCKETS = 100_000
_DEFAULT_PERIOD_MS = 1_000
_MOST_BEYOND = 32
"""Undecided requests that a bucket lets in beyond its level."""


@dataclass(slots=True)
class _Mirror:
    """`undecided` requests are debited already; each is kept or given back once decided."""

    id: str
    layer: str
    knob: str
    shape: BucketShape
    state: BucketState
    undecided: int = 0

    def refusing(self, now_ms: int) -> BucketState | None:
        """The content that has no room for one more request; None if there is room."""
        self.state = self.shape.refilled(self.state, now_ms)
        decided = self.shape.credited(self.state, self.undecided)
        if self.shape.level(decided) < 1:
            return decided
        return self.state if self.shape.level(self.state) <= -_MOST_BEYOND else None

    def debit(self) -> None:
        """Take one request out, into debt if need be, until it is decided."""
        self.state = self.shape.debited(self.state, 1)
        self.undecided += 1


class GuardTicket:
    """One request debited by the guard; whoever holds it keeps it or gives it back."""

    __slots__ = ("_decided", "_guard", "_mirrors")

    def __init__(self, guard: "RequestGuard", mirrors: Sequence[_Mirror]) -> None:
        self._guard = guard
        self._mirrors = mirrors
        self._decided = False

    def keep(self) -> None:
        """The request was admitted and stays debited. Idempotent."""
        if self._decided:
            return
        self._decided = True
        for mirror in self._mirrors:
            mirror.undecided -= 1

    def give_back(self) -> None:
        """Puts the request back: refused, or admitted and refunded whole. Idempotent."""
        self.keep()
        mirrors, self._mirrors = self._mirrors, ()
        self._guard.credit(mirrors)


class RequestGuard:
    """Mirrors of the request buckets of tenants, users and keys.

    Args:
        directory, clock: see there.
        counted: what is counted where it is not generations, for refusals.
    """

    def __init__(self, directory: Directory, clock: Clock, *, counted: str = "") -> None:
        self._directory = directory
        self._clock = clock
        self._counted = counted
        self._mirrors: OrderedDict[str, _Mirror] = OrderedDict()
        self._by_key: dict[str, list[_Mirror]] = {}
        self._version = 0

    def admit(self, caller: Caller) -> GuardTicket:
        """Debits one request from every bucket of the caller, or from none.

        Raises:
            LimitExceeded: RATE_LIMIT_EXCEEDED, as `Reserve` would.
        """
        now_ms = self._clock.monotonic_us() // 1_000
        mirrors = self._mirrors_of(caller)
        violations = []
        for mirror in mirrors:
            refusing = mirror.refusing(now_ms)
            if refusing is not None:
                violations.append(self._violation(mirror, refusing))
        if violations:
            raise refused_for_now(violations, self._clock.now_ms())
        for mirror in mirrors:
            mirror.debit()
        return GuardTicket(self, mirrors)

    def credit(self, mirrors: Sequence[_Mirror]) -> None:
        """Puts one request back into each bucket."""
        now_ms = self._clock.monotonic_us() // 1_000
        for mirror in mirrors:
            refilled = mirror.shape.refilled(mirror.state, now_ms)
            mirror.state = mirror.shape.credited(refilled, 1)

    def _violation(self, mirror: _Mirror, state: BucketState) -> Violation:
        wait_ms = mirror.shape.wait_ms(state, 1)
        shape, capacity = mirror.shape, mirror.shape.capacity
        resource = requests_per(shape.period_ms)
        allowed = rate_allowance(shape.refill, shape.period_ms, capacity, resource)
        return Violation(
            limit_id=mirror.id,
            limit_type="rps",
            resource=resource,
            layer=mirror.layer,
            limit=capacity,
            used=capacity - mirror.shape.level(state),
            requested=1,
            reset_time_ms=0 if wait_ms is None else self._clock.now_ms() + wait_ms,
            knob=mirror.knob,
            allowance=f"{allowed} {self._counted}".rstrip(),
        )

    def _mirrors_of(self, caller: Caller) -> list[_Mirror]:
        index = self._directory.required
        if index.version != self._version:
            self._by_key.clear()
            self._version = index.version
        mirrors = self._by_key.get(caller.key_id)
        if mirrors is None:
            mirrors = [self._mirror(scoped) for scoped in _request_buckets(index, caller)]
            self._by_key[caller.key_id] = mirrors
        return mirrors

    def _mirror(self, scoped: ScopedLimit) -> _Mirror:
        shape = _shape(scoped.limit)
        now_ms = self._clock.monotonic_us() // 1_000
        mirror = self._mirrors.get(scoped.id)
        if mirror is None:
            mirror = _Mirror(scoped.id, scoped.layer, scoped.knob, shape, shape.full(now_ms))
            self._mirrors[scoped.id] = mirror
            if len(self._mirrors) > _MAX_BUCKETS:
                self._mirrors.popitem(last=False)
            return mirror
        mirror.knob = scoped.knob
        if mirror.shape != shape:
            refilled = mirror.shape.refilled(mirror.state, now_ms)
            mirror.state = mirror.shape.reshaped(refilled, shape)
            mirror.shape = shape
        return mirror


def _request_buckets(index: DirectoryIndex, caller: Caller) -> list[ScopedLimit]:
    scoped = (
        *index.tenant_limits(caller.tenant_id),
        *index.user_limits(caller.tenant_id, caller.user_id),
        *index.key_limits(caller.key_id),
    )
    return [entry for entry in scoped if _applies(entry.limit)]


def _applies(limit: Limit) -> bool:
    """A limit of 0 is left to `Reserve`, which refuses it for good; one model's limits too."""
    return (
        limit.kind == LimitKind.LIMIT_KIND_BUCKET
        and limit.resource == LimitResource.LIMIT_RESOURCE_REQUESTS
        and not limit.shadow
        and not limit.model
        and limit.capacity > 0
    )


def _shape(limit: Limit) -> BucketShape:
    period_ms = limit.period.ToMilliseconds() if limit.HasField("period") else 0
    return BucketShape.of(
        limit.capacity, limit.refill or limit.capacity, period_ms or _DEFAULT_PERIOD_MS
    )
