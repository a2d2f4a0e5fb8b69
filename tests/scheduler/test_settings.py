"""Settings that cannot work together are refused with both values."""

from typing import Any

import pytest
from pydantic import ValidationError

from weir_core.errors.startup import StartupError
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_scheduler.app import SchedulerApp
from weir_scheduler.settings import SchedulerSettings


def settings_of(**values: Any) -> SchedulerSettings:
    return SchedulerSettings(**values)


def test_the_settings_reach_the_bounds() -> None:
    bounds = settings_of(
        max_attempts=5, no_worker_s=1.5, worker_loss_s=4, max_queued_requests_per_tenant=7
    ).bounds()
    assert (bounds.max_attempts, bounds.no_worker_us, bounds.loss_us) == (5, 1_500_000, 4_000_000)
    assert bounds.max_queued_per_tenant == 7


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"worker_loss_s": 1, "report_interval_s": 1}, ("worker_loss_s", "report_interval_s")),
        ({"heartbeat_s": 10, "silence_s": 15}, ("heartbeat_s", "silence_s")),
        ({"step_loss_s": 1, "step_suspect_s": 5}, ("step_loss_s", "step_suspect_s")),
        ({"max_attempts": 0}, ("max_attempts",)),
    ],
)
def test_times_that_contradict_each_other_are_refused(
    values: dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        SchedulerSettings(**values)
    assert all(name in str(caught.value) for name in named)


async def test_without_the_cluster_secret_it_does_not_start() -> None:
    settings = settings_of(cluster_token=None)
    with pytest.raises(StartupError, match="WEIR_CLUSTER_TOKEN"):
        SchedulerApp(settings, Telemetry(Tracing("test"), create_registry()))
