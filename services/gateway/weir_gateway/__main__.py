"""Entry point of the gateway process: wires, and nothing else."""

import asyncio
import signal
import sys

from weir_core.process.runtime import ServiceRuntime
from weir_core.process.start import run_service
from weir_gateway.app import GatewayApp
from weir_gateway.settings import GatewaySettings


async def wire(runtime: ServiceRuntime, settings: GatewaySettings) -> None:
    """Starts the gateway and ties it to the process."""
    app = GatewayApp(settings, runtime.telemetry)
    runtime.on_close(app.stop)
    runtime.on_drain(app.drain)
    await app.start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, app.reload)
    runtime.announce("http", app.http_address)
    runtime.announce("grpc", app.grpc_address)
    if app.internal_address:
        runtime.announce("internal", app.internal_address)


if __name__ == "__main__":
    sys.exit(run_service("gateway", GatewaySettings, wire))
