"""Entry point of the worker process: wires, and nothing else."""

import sys

from weir_core.process.runtime import ServiceRuntime
from weir_core.process.start import run_service
from weir_worker.app import WorkerApp
from weir_worker.settings import WorkerSettings

# Time kept from the drain for aborting what is left, so that its terminal records go out.
_ABORT_MARGIN_S = 1.5


def main() -> int:
    """Runs a worker; 1 when it could not start or its engine was lost, 2 for bad settings."""
    faults: list[str] = []

    async def wire(runtime: ServiceRuntime, settings: WorkerSettings) -> None:
        def end(why: str, failed: bool) -> None:
            if failed:
                faults.append(why)
            runtime.request_stop(why)

        app = WorkerApp(settings, runtime.telemetry, on_end=end)
        runtime.on_close(app.stop)
        runtime.on_drain(lambda: app.drain(max(0.0, settings.drain_s - _ABORT_MARGIN_S)))
        await app.start()
        runtime.announce("grpc", app.address)
        runtime.announce("worker_id", app.worker_id)

    status = run_service("worker", WorkerSettings, wire)
    if status == 0 and faults:
        print(f"weir-worker: {faults[0]}", file=sys.stderr, flush=True)  # noqa: T201
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
