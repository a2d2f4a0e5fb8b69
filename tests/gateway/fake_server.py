"""A gRPC server of a test's own, and what the services that it plays share."""

from collections.abc import Callable
from typing import Any

import grpc
from pydantic import SecretStr

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt
from weir_core.errors import Reason, WeirError
from weir_core.process.grpc_port import bind
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.tracing import Tracing
from weir_core.tls.identity import TlsIdentity

TOKEN = SecretStr("a-cluster-secret-of-at-least-32-characters")


def not_played(*_: Any, **__: Any) -> Any:
    raise WeirError(Reason.NOT_BUILT_YET, "no test needs it")


class FakeServer:
    """A gRPC server on a port of its own that can go away and come back."""

    def __init__(self, add: Callable[[grpc.aio.Server], None]) -> None:
        self._add = add
        self._server: grpc.aio.Server | None = None
        self.port = 0
        self.tls: TlsIdentity | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = create_server(
            interceptors=default_interceptors(
                tracing=Tracing("fake"), registry=create_registry(), tokens=[TOKEN], tls=self.tls
            )
        )
        self._add(self._server)
        bound = bind(self._server, self.address, "a test", self.tls)
        self.port = int(bound.rpartition(":")[2])
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None


def attempt_key(attempt: Attempt) -> tuple[str, int]:
    return attempt.request_id, attempt.number


def wire_reason(reason: Reason | None) -> Any:
    return None if reason is None else ErrorReason.Value(f"ERROR_REASON_{reason}")
