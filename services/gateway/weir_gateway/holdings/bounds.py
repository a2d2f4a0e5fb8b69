"""What may be kept for a tenant, files apart, and how a refusal says so."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from weir.directory.v1.directory_pb2 import KeepPolicy
from weir_core.errors import Reason, WeirError

_DEFAULTS = {
    "max_responses": 100_000,
    "max_response_bytes": 2_000_000_000,
    "max_idempotency_keys": 1_000_000,
    "max_idempotency_bytes": 1_000_000_000,
    "max_webhooks": 20_000,
    "max_event_streams": 100,
}


class Kind(StrEnum):
    """What is counted by tenant."""

    RESPONSES = "responses"
    IDEMPOTENCY = "idempotency"
    WEBHOOKS = "webhooks"
    # Summed from their rows: their count is nobody's but says whose turn it is.
    FILES = "files"
    ENQUEUED = "enqueued"


@dataclass(frozen=True, slots=True)
class Held:
    """So many objects with so many bytes; as a change, either may be negative."""

    objects: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """Of one tenant and one kind.

    Attributes:
        what: the objects, for people.
        objects, size: the most, `size` in bytes; None: as many as the objects have.
        objects_knob, size_knob: fields of the tenant's policy.
        way_out: what the tenant can do, for people.
    """

    what: str
    objects: int
    size: int | None
    objects_knob: str
    size_knob: str
    way_out: str

    def check(self, held: Held, added: Held) -> None:
        """Whether so much may be held, `added` included. Raises WeirError(STORAGE_EXCEEDED)."""
        if held.objects > self.objects:
            used, more = held.objects - added.objects, added.objects
            raise self._exceeded(used, more, self.objects, self.what, self.objects_knob)
        if self.size is not None and held.size > self.size:
            used, more, what = held.size - added.size, added.size, f"bytes of {self.what}"
            raise self._exceeded(used, more, self.size, what, self.size_knob)

    def check_room(self, held: Held) -> None:
        """Whether any more may be added to what is held. Raises WeirError(STORAGE_EXCEEDED)."""
        least = Held(1, 1)
        self.check(Held(held.objects + 1, held.size + 1), least)

    def _exceeded(self, used: int, more: int, most: int, what: str, knob: str) -> WeirError:
        return WeirError(
            Reason.STORAGE_EXCEEDED,
            f"the account keeps {used} {what} of at most {most}, and this adds {more} or more; "
            f"{self.way_out}, or have {knob} of your policy raised",
            metadata={"limit": str(most), "used": str(used), "requested": str(more)},
        )


BoundOf = Callable[[str], Bound]
"""The bound of a tenant, by its id."""


def response_bound(policy: KeepPolicy) -> Bound:
    """Of `/v1/responses`."""
    return Bound(
        "responses",
        value(policy, "max_responses"),
        value(policy, "max_response_bytes"),
        "keep.max_responses",
        "keep.max_response_bytes",
        "delete some (DELETE /v1/responses/{id}), send store: false",
    )


def idempotency_bound(policy: KeepPolicy) -> Bound:
    """Of idempotency keys and the answers that are kept for them."""
    return Bound(
        "idempotency keys",
        value(policy, "max_idempotency_keys"),
        value(policy, "max_idempotency_bytes"),
        "keep.max_idempotency_keys",
        "keep.max_idempotency_bytes",
        "wait until some expire, send requests without a key",
    )


def webhook_bound(policy: KeepPolicy) -> Bound:
    """Of webhooks."""
    most, knob = value(policy, "max_webhooks"), "keep.max_webhooks"
    return Bound("webhooks", most, None, knob, knob, "let the receiver take them")


def value(policy: KeepPolicy, field: str) -> int:
    """What a policy sets, or the default."""
    # None of them may be set to 0.
    return int(getattr(policy, field)) or _DEFAULTS[field]
