"""Entry point of the ratelimiter process: wires, and nothing else."""

import sys

from weir_core.process.runtime import ServiceRuntime
from weir_core.process.start import run_service
from weir_ratelimiter.app import RateLimiterApp
from weir_ratelimiter.envoy.servicer import SERVICE as ENVOY_SERVICE
from weir_ratelimiter.settings import RateLimiterSettings


async def wire(runtime: ServiceRuntime, settings: RateLimiterSettings) -> None:
    """Start the ratelimiter and tie it to the process."""
    app = RateLimiterApp(settings, runtime.telemetry)
    runtime.on_close(app.stop)
    runtime.on_drain(app.drain)
    await app.start()
    runtime.add_server(
        app.server,
        address=settings.address,
        knob="address",
        services=app.services,
        tls=app.tls,
    )
    if app.envoy_server is not None:
        runtime.add_server(
            app.envoy_server,
            address=settings.envoy_address,
            knob="envoy_address",
            services=[ENVOY_SERVICE],
            key="envoy",
            tls=app.tls,
        )


if __name__ == "__main__":
    sys.exit(run_service("ratelimiter", RateLimiterSettings, wire))
