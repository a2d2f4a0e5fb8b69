"""The entry point shared by the services' `__main__`."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from weir_core.config import ServiceSettings, load_settings
from weir_core.errors.startup import StartupError
from weir_core.process.runtime import ServiceRuntime
from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.telemetry import setup_telemetry

S = TypeVar("S", bound=ServiceSettings)

_log = get_logger(__name__)

_LOOP_CLOSE_S = 5.0

Wire = Callable[[ServiceRuntime, S], Awaitable[None]]


def run_service(
    name: str, settings_cls: type[S], wire: Wire[S], argv: Sequence[str] | None = None
) -> int:
    """Runs one service process from arguments to exit status.

    Args:
        name: short name, such as `gateway`.
        settings_cls: its settings.
        wire: builds the parts and registers them with the runtime: servers with `add_server`,
            clean-up with `on_drain` and `on_close`. It must not block for long.
        argv: arguments; None for those of the process.

    Returns 0 after an orderly end, 1 when it could not start (one line on stderr says why),
    2 for bad settings (likewise). Where a task does not end, cancelled though it is, the process
    ends all the same, with status 1.
    """
    # gRPC's own lines are not JSON; what matters in them comes as a status or an exception.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        settings = load_settings(
            settings_cls, sys.argv[1:] if argv is None else argv, prog=f"weir-{name}"
        )
    except StartupError as exc:
        return _fail(name, exc, 2)
    last_resort = threading.Timer(_LOOP_CLOSE_S, _give_up)
    last_resort.daemon = True
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            try:
                runner.run(_main(name, settings, wire))
            finally:
                # The loop closes when every task has ended, and a task may lose its cancellation.
                last_resort.start()
    except StartupError as exc:
        return _fail(name, exc, 1)
    except Exception as exc:
        _log.critical("service_failed", exc_info=exc)
        return _fail(name, StartupError(f"{type(exc).__name__}; the log says where"), 1)
    finally:
        last_resort.cancel()
    return 0


async def _main(name: str, settings: S, wire: Wire[S]) -> None:
    telemetry = setup_telemetry(name, settings)
    runtime = ServiceRuntime(
        name,
        telemetry=telemetry,
        metrics_address=settings.metrics_address,
        drain_s=settings.drain_s,
        grace_s=settings.grace_s,
        supervisor_pid=settings.supervisor_pid,
    )
    await runtime.run(lambda: wire(runtime, settings))


def _give_up() -> None:
    _log.critical("loop_does_not_close", waited_s=_LOOP_CLOSE_S)
    sys.stderr.flush()
    os._exit(1)


def _fail(name: str, exc: StartupError, code: int) -> int:
    # For a supervisor the same line comes as JSON on stdout, where it reads `ready`.
    print(f"weir-{name}: {exc}", file=sys.stderr, flush=True)  # noqa: T201
    failed = {"event": "failed", "service": name, "error": str(exc)}
    print(json.dumps(failed), flush=True)  # noqa: T201
    return code


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
