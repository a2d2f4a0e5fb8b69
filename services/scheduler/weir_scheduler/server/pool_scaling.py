"""What a pool of the directory says about the number of its workers."""

from weir.directory.v1.directory_pb2 import Scaling
from weir_scheduler.scaling.pool_scaling import PoolScaling


def pool_scaling_of(message: Scaling) -> PoolScaling:
    """In the terms of the domain; what is absent stays open."""

    def given(name: str) -> int | None:
        return getattr(message, name) if message.HasField(name) else None  # type: ignore[arg-type]

    return PoolScaling(
        min_workers=given("min_workers"),
        max_workers=given("max_workers"),
        target_use=_part(given("target_use_millis")),
        target_kv_use=_part(given("target_kv_use_millis")),
        target_wait_us=_micros(given("target_wait_ms")),
        down_window_us=_micros(given("down_window_ms")),
    )


def _part(millis: int | None) -> float | None:
    return None if millis is None else millis / 1_000


def _micros(millis: int | None) -> int | None:
    return None if millis is None else millis * 1_000
