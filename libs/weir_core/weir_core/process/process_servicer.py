"""`weir.process.v1.ProcessService`: what every service tells of its own process."""

# ruff: noqa: N802 - methods are named by the contract

import grpc

from weir.process.v1.process_service_pb2 import GetSettingsRequest, GetSettingsResponse
from weir.process.v1.process_service_pb2_grpc import (
    ProcessServiceServicer,
    add_ProcessServiceServicer_to_server,
)
from weir_core.config import ServiceSettings
from weir_core.process.settings_report import settings_report
from weir_core.rpc.interceptors.handler import Context


class ProcessServicer(ProcessServiceServicer):
    """Serves whoever has the cluster secret.

    Args:
        service: short name of the process.
        settings: those in force.
    """

    def __init__(self, service: str, settings: ServiceSettings) -> None:
        self._service = service
        self._settings = settings

    async def GetSettings(
        self, request: GetSettingsRequest, context: Context
    ) -> GetSettingsResponse:
        """The settings, and where each value comes from."""
        return GetSettingsResponse(settings=settings_report(self._service, self._settings))


def add_process_service(server: grpc.aio.Server, service: str, settings: ServiceSettings) -> None:
    """Adds it to a server that asks for the cluster secret; on one that asks for none there is
    no such service.
    """
    if settings.cluster_token is not None:
        add_ProcessServiceServicer_to_server(ProcessServicer(service, settings), server)
