"""Entry point of the scheduler process: wires, and nothing else."""

import sys

from weir_core.process.runtime import ServiceRuntime
from weir_core.process.start import run_service
from weir_scheduler.app import SchedulerApp
from weir_scheduler.settings import SchedulerSettings


async def wire(runtime: ServiceRuntime, settings: SchedulerSettings) -> None:
    """Starts the scheduler and ties it to the process."""
    app = SchedulerApp(settings, runtime.telemetry)
    runtime.on_close(app.stop)
    runtime.on_drain(app.drain)
    await app.start()
    runtime.announce("grpc", app.address)


if __name__ == "__main__":
    sys.exit(run_service("scheduler", SchedulerSettings, wire))
