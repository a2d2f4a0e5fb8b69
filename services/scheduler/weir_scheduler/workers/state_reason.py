"""Why a worker is in the state in which it is, for people."""

from weir_scheduler.workers.worker import Worker, WorkerState


def state_reason(worker: Worker, now_us: int) -> str:
    """Empty for a worker that is ready."""
    match worker.state(now_us):
        case WorkerState.LOST:
            return worker.lost_why
        case WorkerState.DRAINING:
            return "told to drain" if worker.drain_ordered else "drains by itself"
        case WorkerState.SUSPECT:
            return _suspicion(worker, now_us)
    return ""


def _suspicion(worker: Worker, now_us: int) -> str:
    if not worker.connected:
        return "its stream has ended"
    if worker.frozen:
        return f"its engine has made no step for {worker.load.step_age_us / 1_000_000:.1f} s"
    if worker.overdue:
        return "it has not reported since an attempt was sent to it"
    open_until_us = worker.breaker.open_until_us or now_us
    left_s = max(0, open_until_us - now_us) / 1_000_000
    return f"its last attempts failed; one is tried in {left_s:.1f} s"
