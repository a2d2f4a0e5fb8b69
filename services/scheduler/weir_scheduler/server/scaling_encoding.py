"""Scaling signals on the wire."""

from google.protobuf.duration_pb2 import Duration

from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_scheduler.scaling.advisor import Advice
from weir_scheduler.scaling.recommendation import Recommendation
from weir_scheduler.scaling.signals import ScalingSignals


def pool_scaling(advice: Advice, *, to_wall_us: int) -> wire.PoolScaling:
    """One pool; `to_wall_us` leads from the monotonic axis to Unix time."""
    return wire.PoolScaling(
        model=advice.key.model,
        pool=advice.key.pool,
        signals=_signals(advice.signals, to_wall_us),
        recommendation=_recommendation(advice.recommendation),
        min_workers=advice.rules.min_workers,
        max_workers=advice.rules.max_workers,
    )


def _signals(signals: ScalingSignals, to_wall_us: int) -> wire.ScalingSignals:
    message = wire.ScalingSignals(
        known=signals.known,
        workers=signals.workers,
        draining_workers=signals.draining,
        queued_requests=signals.queued,
        queued_tokens=signals.queued_tokens,
        capped_requests=signals.capped,
        queue_time_p95=_duration(signals.queue_p95_us),
        oldest_wait=_duration(signals.oldest_wait_us),
        running_requests=signals.running,
        tokens_in_flight=signals.tokens_in_flight,
        request_slots=signals.slots,
        token_slots=signals.token_slots,
        kv_use_millis=-1 if signals.kv_use is None else round(signals.kv_use * 1_000),
    )
    message.measure_time.FromMicroseconds(signals.measured_us + to_wall_us)
    if signals.predicted_wait_us is not None:
        message.predicted_wait.CopyFrom(_duration(signals.predicted_wait_us))
    if signals.startup_us:
        message.start_duration.CopyFrom(_duration(signals.startup_us))
    return message


def _recommendation(one: Recommendation) -> wire.ScalingRecommendation:
    return wire.ScalingRecommendation(
        workers=one.workers,
        needed_millis=round(one.needed * 1_000),
        reason=one.reason.value,
        driver=one.driver,
    )


def _duration(micros: int) -> Duration:
    length = Duration()
    length.FromMicroseconds(micros)
    return length
