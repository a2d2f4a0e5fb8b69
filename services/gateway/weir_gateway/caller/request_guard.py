"""The cheap request-rate check right after authentication.

A local mirror of the caller's own request buckets: a flood is refused before the template and
the tokenizer run. `Reserve` decides; with several gateways each mirror lets the whole rate
through, so it never refuses what a correct total would allow.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from weir.directory.v1.directory_pb2 import Limit, LimitKind, LimitResource
from weir_core.bucket import BucketShape, BucketState
from weir_core.clock import Clock
from weir_core.directory import DirectoryIndex, ScopedLimit
from weir_core.errors import Violation
from weir_core.errors.refusal import refused_for_now, requests_per
from weir_gateway.caller.caller import Caller
from weir_gateway.directory.follower import Directory

_MAX_BUCKETS = 100_000
_DEFAULT_PERIOD_MS = 1_000


@dataclass(slots=True)
class _Mirror:
    id: str
    layer: str
    knob: str
    shape: BucketShape
    state: BucketState


class GuardTicket:
    """One request debited by the guard."""

    __slots__ = ("_guard", "_mirrors")

    def __init__(self, guard: "RequestGuard", mirrors: Sequence[_Mirror]) -> None:
        self._guard = guard
        self._mirrors = mirrors

    def give_back(self) -> None:
        """Puts the request back, since it was refused before it was reserved. Idempotent."""
        mirrors, self._mirrors = self._mirrors, ()
        self._guard.credit(mirrors)


class RequestGuard:
    """Mirrors of the request buckets of tenants, users and keys."""

    def __init__(self, directory: Directory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
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
            mirror.state = mirror.shape.refilled(mirror.state, now_ms)
            if mirror.shape.wait_ms(mirror.state, 1) != 0:
                violations.append(self._violation(mirror))
        if violations:
            raise refused_for_now(violations, self._clock.now_us() // 1_000)
        for mirror in mirrors:
            mirror.state = mirror.shape.debited(mirror.state, 1)
        return GuardTicket(self, mirrors)

    def credit(self, mirrors: Sequence[_Mirror]) -> None:
        """Puts one request back into each bucket."""
        now_ms = self._clock.monotonic_us() // 1_000
        for mirror in mirrors:
            refilled = mirror.shape.refilled(mirror.state, now_ms)
            mirror.state = mirror.shape.credited(refilled, 1)

    def _violation(self, mirror: _Mirror) -> Violation:
        wait_ms = mirror.shape.wait_ms(mirror.state, 1)
        capacity = mirror.shape.capacity
        return Violation(
            limit_id=mirror.id,
            limit_type="rps",
            resource=requests_per(mirror.shape.period_ms),
            layer=mirror.layer,
            limit=capacity,
            used=capacity - mirror.shape.level(mirror.state),
            requested=1,
            reset_time_ms=0 if wait_ms is None else self._clock.now_us() // 1_000 + wait_ms,
            knob=mirror.knob,
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
            owner = scoped.owner.rpartition("/")[2]
            knob = f"limit `{scoped.limit.id}` of {scoped.layer.replace('_', ' ')} {owner}"
            mirror = _Mirror(scoped.id, scoped.layer, knob, shape, shape.full(now_ms))
            self._mirrors[scoped.id] = mirror
            if len(self._mirrors) > _MAX_BUCKETS:
                self._mirrors.popitem(last=False)
        elif mirror.shape != shape:
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
