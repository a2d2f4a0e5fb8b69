"""One limit as decisions see it: resolved to its owner, validated, with its key."""

from enum import IntEnum

import msgspec

from weir_core.bucket import BucketShape
from weir_core.errors.refusal import allowance, rate_allowance, requests_per
from weir_ratelimiter.domain.calendar import Calendar


class Layer(IntEnum):
    """Where a limit is configured; the order in which limits are evaluated."""

    CLUSTER = 0
    TENANT = 1
    USER = 2
    API_KEY = 3
    MODEL = 4

    @property
    def label(self) -> str:
        """Name on the wire, such as `api_key`."""
        return self.name.lower()


class Kind(IntEnum):
    """What mechanism holds a limit."""

    BUCKET = 1
    LEASE = 2
    WINDOW = 3
    CONTEXT = 4
    HOLD = 5


HELD = (Kind.LEASE, Kind.HOLD)
"""Kinds of which a request has a part while it is in the system, and is charged nothing."""


class Resource(IntEnum):
    """What a limit counts; also the index into `Demand.amounts`."""

    REQUESTS = 1
    TOKENS = 2
    INPUT_TOKENS = 3
    OUTPUT_TOKENS = 4
    CONCURRENCY = 5
    STREAMS = 6
    COST = 7
    CONTEXT_TOKENS = 8
    PROMPT_TOKENS = 9
    MAX_NEW_TOKENS = 10
    IN_FLIGHT_TOKENS = 11


LIMIT_TYPES = {
    Resource.REQUESTS: "rps",
    Resource.TOKENS: "tpm",
    Resource.INPUT_TOKENS: "tpm",
    Resource.OUTPUT_TOKENS: "tpm",
    Resource.CONCURRENCY: "concurrency",
    Resource.STREAMS: "concurrency",
    Resource.COST: "budget",
    Resource.CONTEXT_TOKENS: "context",
    Resource.PROMPT_TOKENS: "context",
    Resource.MAX_NEW_TOKENS: "context",
    Resource.IN_FLIGHT_TOKENS: "concurrency",
}
"""Public name of the family of each resource (`limit_type`)."""


class Limit(msgspec.Struct, frozen=True):
    """A limit of one owner.

    Attributes:
        key: stable id, such as `tenant:acme/tpm`; also the key of its bucket or lease set.
        layer: where it is configured.
        kind: its mechanism.
        resource: what it counts.
        shape: capacity in units of the resource; refill and period matter to buckets alone.
        knob: what to change to move it, for people.
        model: applies to requests for this model alone; empty: to all.
        shadow: counted and reported, never refused.
        max_debt: largest debt that an extension may leave, units.
        calendar: of a window; None for other kinds.
        overdraws: a request larger than the bucket is admitted when the bucket is full, and
            leaves it in debt; of a hold, when nothing is held.
    """

    key: str
    layer: Layer
    kind: Kind
    resource: Resource
    shape: BucketShape
    knob: str
    model: str = ""
    shadow: bool = False
    max_debt: int = 0
    calendar: Calendar | None = None
    overdraws: bool = False

    @property
    def capacity(self) -> int:
        """Largest level, most leases, units per window or at once, or longest context."""
        return self.shape.capacity

    @property
    def limit_type(self) -> str:
        """`rps`, `tpm`, `concurrency`, `budget` or `context`."""
        return "budget" if self.kind is Kind.WINDOW else LIMIT_TYPES[self.resource]

    @property
    def resource_name(self) -> str:
        """Exact public name, such as `requests_per_minute` or `input_tokens`."""
        name = self.resource.name.lower()
        if self.calendar is not None:
            return f"{name}_per_{self.calendar.unit}"
        if self.resource is not Resource.REQUESTS:
            return name
        return requests_per(self.shape.period_ms)

    @property
    def allowance(self) -> str:
        """What it allows, for people, such as `2 requests per second, burst 4`."""
        shape, name = self.shape, self.resource_name
        if self.kind is Kind.BUCKET:
            return rate_allowance(shape.refill, shape.period_ms, shape.capacity, name)
        return allowance(shape.capacity, name)

    @property
    def numbers_are_own(self) -> bool:
        """Whether its use tells the caller nothing about other tenants."""
        return self.kind is Kind.CONTEXT or self.layer not in (Layer.CLUSTER, Layer.MODEL)
