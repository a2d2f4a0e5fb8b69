"""What a worker did between two looks at its totals."""

from google.protobuf.duration_pb2 import Duration

from weir.gateway.v1.history_service_pb2 import WorkerWork
from weir.scheduler.v1.worker_report_pb2 import WorkerLoad

_COUNTS = {
    "steps": "steps_total",
    "prefill_tokens": "prefill_tokens_total",
    "decode_tokens": "decode_tokens_total",
    "recomputed_tokens": "recomputed_tokens_total",
    "prefix_queries": "prefix_queries_total",
    "prefix_hits": "prefix_hits_total",
    "evictions": "evictions_total",
    "preemptions": "preemptions_total",
}
_TIMES = {"prefill_time": "prefill_time_total", "decode_time": "decode_time_total"}


def work_between(before: WorkerLoad, after: WorkerLoad) -> WorkerWork | None:
    """The difference of two reports of one worker; None when the later is no news."""
    passed_us = after.report_time.ToMicroseconds() - before.report_time.ToMicroseconds()
    if passed_us <= 0:
        return None
    work = WorkerWork(duration=_duration(passed_us))
    for name, total in _COUNTS.items():
        setattr(work, name, max(0, getattr(after, total) - getattr(before, total)))
    for name, total in _TIMES.items():
        getattr(work, name).CopyFrom(_passed(getattr(before, total), getattr(after, total)))
    if after.HasField("processor_wait_total"):
        passed = _passed(before.processor_wait_total, after.processor_wait_total)
        work.processor_wait.CopyFrom(passed)
    if after.device_utilisation_millis >= 0:
        work.busy_time.CopyFrom(_duration(after.device_utilisation_millis * passed_us // 1_000))
    if after.foreign_utilisation_millis >= 0:
        work.foreign_time.CopyFrom(_duration(after.foreign_utilisation_millis * passed_us // 1_000))
    return work


def _passed(before: Duration, after: Duration) -> Duration:
    return _duration(max(0, after.ToMicroseconds() - before.ToMicroseconds()))


def _duration(micros: int) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(micros)
    return duration
