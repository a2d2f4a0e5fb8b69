"""Limits, commands and records for the tests, with as little said as possible."""

from weir_core.bucket import BucketShape
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.calendar import Calendar, Unit
from weir_ratelimiter.domain.demand import demand
from weir_ratelimiter.domain.ids import fingerprint, reservation_id
from weir_ratelimiter.domain.limit import Kind, Layer, Limit, Resource
from weir_ratelimiter.domain.price import FREE, Price
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.record import Record, RecordSigner

SIGNER = RecordSigner(b"secret of the tests")
SUBJECT = Subject("acme", "bob", "key1", "m", "1")
OK = 1


def bucket(
    key: str,
    resource: Resource,
    capacity: int,
    *,
    refill: int | None = None,
    period_ms: int = 60_000,
    layer: Layer = Layer.TENANT,
    shadow: bool = False,
    max_debt: int | None = None,
) -> Limit:
    return Limit(
        key=key,
        layer=layer,
        kind=Kind.BUCKET,
        resource=resource,
        shape=BucketShape(capacity, capacity if refill is None else refill, period_ms),
        knob=f"limit {key}",
        shadow=shadow,
        max_debt=capacity if max_debt is None else max_debt,
    )


def lease(
    key: str, capacity: int, *, resource: Resource = Resource.CONCURRENCY, shadow: bool = False
) -> Limit:
    shape = BucketShape(capacity, capacity, 1)
    return Limit(key, Layer.TENANT, Kind.LEASE, resource, shape, f"limit {key}", shadow=shadow)


def in_flight(
    key: str,
    capacity: int,
    *,
    shadow: bool = False,
    max_debt: int = 0,
    overdraws: bool = False,
) -> Limit:
    return Limit(
        key=key,
        layer=Layer.TENANT,
        kind=Kind.HOLD,
        resource=Resource.IN_FLIGHT_TOKENS,
        shape=BucketShape(capacity, capacity, 1),
        knob=f"limit {key}",
        shadow=shadow,
        max_debt=max_debt,
        overdraws=overdraws,
    )


def window(
    key: str,
    resource: Resource,
    capacity: int,
    unit: Unit = Unit.DAY,
    *,
    time_zone: str = "UTC",
    shadow: bool = False,
    max_debt: int = 0,
) -> Limit:
    return Limit(
        key=key,
        layer=Layer.TENANT,
        kind=Kind.WINDOW,
        resource=resource,
        shape=BucketShape(capacity, 0, 1),
        knob=f"limit {key}",
        shadow=shadow,
        max_debt=max_debt,
        calendar=Calendar(unit, time_zone),
    )


def command(
    request_id: str,
    limits: tuple[Limit, ...],
    *,
    prompt: int = 10,
    output: int = 20,
    max_new: int | None = None,
    streams: bool = False,
    ttl_ms: int = 30_000,
    subject: Subject = SUBJECT,
    price: Price = FREE,
    requests: int = 1,
) -> ReserveCommand:
    most = output if max_new is None else max_new
    return ReserveCommand(
        id=reservation_id(subject.tenant_id, request_id),
        request_id=request_id,
        subject=subject,
        fingerprint=fingerprint(prompt, most),
        limits=limits,
        amounts=demand(prompt, output, most, streams, price, requests=requests),
        prompt_tokens=prompt,
        output_tokens=output,
        max_new_tokens=most,
        ttl_ms=ttl_ms,
        price_version=1,
        price=price,
        requests=requests,
    )


def record_of(reservation: Reservation, epoch: str) -> Record:
    """Through the signature, as a caller would carry it."""
    return SIGNER.read(SIGNER.sign(reservation, epoch))


def exact(prompt: int, completion: int, *, cached: int = 0, outcome: int = OK) -> Report:
    return Report(Usage(prompt, cached, completion), Quality.EXACT, outcome)
