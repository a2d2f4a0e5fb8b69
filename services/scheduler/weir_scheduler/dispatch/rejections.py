"""Refusals of the scheduler, in words."""

from weir_core.errors import Reason, WeirError
from weir_scheduler.queues.entry import QueueEntry

_MICRO = 1_000_000
_DAY_S = 86_400


_WANT_OF_ROOM = frozenset(
    {
        Reason.QUEUE_FULL,
        Reason.QUEUE_TIMEOUT,
        Reason.OVERLOADED,
        Reason.NO_WORKER,
        Reason.WORKER_LOST,
        Reason.DEADLINE_EXCEEDED,
    }
)

_NEVER_ARRIVED = frozenset({Reason.GRANT_INVALID, Reason.STALE_ATTEMPT})


def is_want_of_room(cause: WeirError) -> bool:
    """Whether a request was refused because there was no room for it in time.

    A tenant's own queue limit is its own affair.
    """
    own = cause.reason is Reason.QUEUE_FULL and cause.metadata.get("scope") == "tenant"
    return cause.reason in _WANT_OF_ROOM and not own


def too_large(message: str) -> WeirError:
    """It fits no worker."""
    return WeirError(Reason.REQUEST_TOO_LARGE, f"the request can never run: {message}")


def queue_timeout(entry: QueueEntry, waited_us: int, retry_after_s: float | None) -> WeirError:
    """It waited as long as it may."""
    return WeirError(
        Reason.QUEUE_TIMEOUT,
        f"the request waited {waited_us / _MICRO:.1f} s in the queue of model {entry.model}, "
        "the longest that queue_timeout_ms allows; retry later",
        retry_after_s=retry_after_s,
    )


def deadline_passed(waited_us: int) -> WeirError:
    """Its deadline passed while it waited."""
    return WeirError(
        Reason.DEADLINE_EXCEEDED,
        f"the deadline passed after {waited_us / _MICRO:.1f} s in the queue",
    )


def tenant_queue_full(tenant_id: str, limit: int, waiting: int, retry_after_s: float) -> WeirError:
    """The tenant has as many requests waiting as it may."""
    return WeirError(
        Reason.QUEUE_FULL,
        f"{waiting} requests of tenant {tenant_id} wait already and its max_queued_requests is "
        f"{limit}; send fewer at once or raise the policy's max_queued_requests",
        retry_after_s=retry_after_s,
        metadata={"limit": "max_queued_requests", "scope": "tenant"},
    )


def shared_queue_full(scope: str, retry_after_s: float) -> WeirError:
    """The model, or the service, has as many requests waiting as it may; no numbers of others."""
    return WeirError(
        Reason.QUEUE_FULL,
        f"the queue of the {scope} is full (max_queued_requests of the {scope}); retry later",
        retry_after_s=retry_after_s,
        metadata={"limit": "max_queued_requests", "scope": scope},
    )


def overloaded(
    entry: QueueEntry,
    wait_s: float,
    longest_s: float,
    calm_s: float,
    knob: str,
    retry_after_s: float,
) -> WeirError:
    """It would wait longer than it may, or gives way to more urgent requests.

    Args:
        entry: the request.
        wait_s: expected wait, behind those too that were told when to come back.
        longest_s: what `knob` allows.
        calm_s: what the pool's shedding leaves of that to the request's priority.
        knob: name of the setting.
        retry_after_s: when there is a place for it.
    """
    expected = f"about {wait_s:.1f} s" if wait_s < _DAY_S else "without end"
    bound = f"{knob} allows {longest_s:.1f} s"
    if calm_s < longest_s:
        bound = f"priority {entry.priority} may wait {calm_s:.1f} s (shedding; {bound})"
    return WeirError(
        Reason.OVERLOADED,
        f"model {entry.model} is busy: the request would wait {expected} and {bound}; "
        "retry after the time given",
        retry_after_s=retry_after_s,
        metadata={"limit": knob, "scope": "tenant"},
    )


def pool_gone(entry: QueueEntry, pool: str, gone_us: int) -> WeirError:
    """The tenant's own workers are not there, and others are not to be used."""
    return WeirError(
        Reason.NO_WORKER,
        f"no worker of pool {pool}, which is dedicated to tenant {entry.tenant_id}, has been "
        f"there for {gone_us / _MICRO:.0f} s; when_gone of the pool may let its requests wait "
        "or go to shared workers",
        retry_after_s=5.0,
        metadata={"limit": "when_gone", "scope": "pool"},
    )


def no_worker(entry: QueueEntry, waited_us: int, last: WeirError | None) -> WeirError:
    """No live worker took it for the bound of that wait; the last failure, if there was one."""
    version = f" version {entry.model_version}" if entry.model_version else ""
    message = (
        f"no live worker serves model {entry.model}{version} for this request after "
        f"{waited_us / _MICRO:.1f} s; is a worker up, and not draining?"
    )
    if last is None:
        return WeirError(Reason.NO_WORKER, message, retry_after_s=5.0)
    return WeirError(_told(last.reason), f"{last.message}; then {message}", retry_after_s=5.0)


def attempts_used_up(attempts: int, last: WeirError) -> WeirError:
    """Every attempt that it may have failed; the last reason stands for all."""
    return WeirError(
        _told(last.reason),
        f"attempt {attempts} of at most {attempts} failed: {last.message}",
        retry_after_s=last.retry_after_s,
    )


def retries_used_up(cause: WeirError) -> WeirError:
    """It was refused, and so were so many others that it is not tried again."""
    return WeirError(
        _told(cause.reason),
        f"{cause.message}; so many requests of the model were refused lately that none of them "
        "is tried again (retry_ratio, retries_per_s of the pool's placement)",
        retry_after_s=cause.retry_after_s or 1.0,
    )


def _told(reason: Reason) -> Reason:
    """What the client is told: a grant that came too late is no fault of its own."""
    return Reason.WORKER_LOST if reason in _NEVER_ARRIVED else reason


def shutting_down() -> WeirError:
    """The scheduler takes no new requests."""
    return WeirError(Reason.DRAINING, "the scheduler is shutting down; retry", retry_after_s=1.0)


def worker_lost(worker_id: str, why: str) -> WeirError:
    """The worker of an attempt is gone."""
    return WeirError(Reason.WORKER_LOST, f"worker {worker_id} was lost: {why}", retry_after_s=1.0)


def never_arrived(worker_id: str, arrival_us: int) -> WeirError:
    """No report named the attempt in time."""
    return WeirError(
        Reason.WORKER_LOST,
        f"the attempt did not reach worker {worker_id} within {arrival_us / _MICRO:.1f} s",
        retry_after_s=1.0,
    )
