"""A small real service, run as a process by `test_process.py`."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from typing import Any, Literal

from pydantic_settings import SettingsConfigDict

from tests.core.support import handlers
from weir_core.config import ServiceSettings
from weir_core.process.runtime import ServiceRuntime
from weir_core.process.start import run_service
from weir_core.rpc.finish import finish
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server


class DemoSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="WEIR_DEMO__")

    grpc_address: str = "127.0.0.1:0"
    slow_drain: bool = False
    deaf: bool = False
    wiring: Literal["quick", "endless", "broken"] = "quick"


async def deaf() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


async def close(name: str) -> None:
    say(f"close {name}")


def say(word: str) -> None:
    print(word, flush=True)


async def wire(runtime: ServiceRuntime, settings: DemoSettings) -> None:
    if settings.wiring == "broken":
        raise KeyError("a part that is not there")
    if settings.wiring == "endless":
        runtime.on_close(lambda: close("half-wired"))
        say('{"event": "wiring"}')
        await asyncio.sleep(3600)

    async def hold(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            yield b"started"
            await asyncio.sleep(3600)
        finally:
            await finish(asyncio.sleep(0.5), 5)
            say("stream ended")

    async def loop_name(request: bytes, context: Any) -> bytes:
        return type(asyncio.get_running_loop()).__module__.encode()

    async def watched(request: bytes, context: Any) -> bytes:
        return str(len(gc.get_objects())).encode()

    server = create_server(
        interceptors=default_interceptors(
            tracing=runtime.telemetry.tracing, registry=runtime.telemetry.registry
        )
    )
    server.add_generic_rpc_handlers(
        (
            handlers(
                Hold=("server_stream", hold),
                Loop=("unary", loop_name),
                Watched=("unary", watched),
            ),
        )
    )
    runtime.add_server(
        server,
        address=settings.grpc_address,
        knob="--grpc-address",
        services=["weir.worker.v1.WorkerService"],
    )

    async def drain() -> None:
        say("drain")
        await asyncio.sleep(3600 if settings.slow_drain else 0)

    async def fail() -> None:
        raise RuntimeError("a broken hook hurts no other")

    runtime.on_drain(drain)
    if settings.deaf:
        runtime.on_close(deaf)
    runtime.on_close(lambda: close("first"))
    runtime.on_close(fail)
    runtime.on_close(lambda: close("second"))


if __name__ == "__main__":
    sys.exit(run_service("demo", DemoSettings, wire))
