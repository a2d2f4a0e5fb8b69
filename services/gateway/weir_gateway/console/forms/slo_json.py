"""How targets are kept, as the pages get it."""

from typing import Any

from weir.scheduler.v1.scheduler_service_pb2 import SloStatus, SloWindow
from weir_gateway.console.forms.moments import duration_s


def slo_json(status: SloStatus) -> dict[str, Any]:
    """One target of one tenant; it is kept while no window burns faster than it may."""
    return {
        "tenant": status.tenant_id,
        "objective": status.objective,
        "target_s": duration_s(status, "target"),
        "attainment_target": status.attainment_target_millis / 1_000,
        "windows": [_window_json(window) for window in status.windows],
        "kept": is_kept(status),
    }


def is_kept(status: SloStatus) -> bool:
    """Whether a target is being kept."""
    return all(window.burn_rate <= 1 for window in status.windows)


def _window_json(window: SloWindow) -> dict[str, Any]:
    return {
        "length_s": duration_s(window, "length"),
        "good": window.good,
        "total": window.total,
        "attainment": window.good / window.total if window.total else None,
        "burn_rate": window.burn_rate if window.total else None,
    }
