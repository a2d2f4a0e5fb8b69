"""The control role: the directory, from its file to those who watch it."""

from pathlib import Path

import grpc

from weir.directory.v1.directory_service_pb2 import DESCRIPTOR
from weir.directory.v1.directory_service_pb2_grpc import add_DirectoryServiceServicer_to_server
from weir_core.clock import Clock
from weir_core.errors.startup import StartupError
from weir_gateway.directory.file import DirectoryFileError
from weir_gateway.directory.metrics import DirectoryMetrics
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.servicer import DirectoryServicer
from weir_gateway.directory.source import DirectoryFileSource
from weir_gateway.settings import GatewaySettings

DIRECTORY_SERVICE = DESCRIPTOR.services_by_name["DirectoryService"].full_name


class Control:
    """Parts of the control role; see `GatewayApp`."""

    def __init__(self, settings: GatewaySettings, clock: Clock, metrics: DirectoryMetrics) -> None:
        if not settings.directory_file:
            raise StartupError(
                "directory_file is empty; name a YAML file with tenants, keys and models, or "
                "start with role edge and a directory_address"
            )
        self.publisher = DirectoryPublisher(clock)
        self.source = DirectoryFileSource(
            Path(settings.directory_file),
            self.publisher,
            poll_s=settings.directory_poll_s,
            on_refused=metrics.refused,
        )
        self.publisher.on_change(metrics.changed)

    def serve(self, server: grpc.aio.Server) -> None:
        """Adds the service; before the server starts."""
        add_DirectoryServiceServicer_to_server(DirectoryServicer(self.publisher), server)

    def start(self) -> None:
        """Loads the file and follows it. Raises StartupError, one line."""
        try:
            self.source.load()
        except DirectoryFileError as error:
            raise StartupError(f"directory_file {error}") from None
        self.source.start()

    async def stop(self) -> None:
        """Ends it."""
        await self.source.stop()
