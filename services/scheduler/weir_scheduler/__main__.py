"""Entry point of the scheduler process: wires, and nothing else."""

import sys

from weir_core.process import ServiceRuntime, run_service
from weir_scheduler.app import SchedulerApp
from weir_scheduler.settings import SchedulerSettings


async def wire(runtime: ServiceRuntime, settings: SchedulerSettings) -> None:
    """Build the scheduler and register it."""
    SchedulerApp(runtime, settings).register()


if __name__ == "__main__":
    sys.exit(run_service("scheduler", SchedulerSettings, wire))
