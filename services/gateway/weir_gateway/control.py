"""The control role: the directory, from its file or database to those who watch it."""

from functools import partial
from pathlib import Path

import grpc
from pydantic import SecretStr

from weir.directory.v1.directory_service_pb2 import DESCRIPTOR
from weir.directory.v1.directory_service_pb2_grpc import add_DirectoryServiceServicer_to_server
from weir.gateway.v1.admin_service_pb2_grpc import AdminServiceServicer
from weir_core.clock import Clock
from weir_core.database.url import parse_database_url
from weir_core.errors.startup import StartupError
from weir_gateway.admin.audit_trail import AuditTrail
from weir_gateway.admin.key_ring import KeyRing
from weir_gateway.admin.objects import Objects
from weir_gateway.admin.off import NO_DATABASE, NO_SECRET, admin_off
from weir_gateway.admin.secret import AdminGuard, check_secret
from weir_gateway.admin.servicer import AdminServicer
from weir_gateway.admin.use_keeper import UseKeeper
from weir_gateway.caller.key_uses import KeyUses
from weir_gateway.directory.document import Document
from weir_gateway.directory.file import DirectoryFileError, parse_document, read_document
from weir_gateway.directory.metrics import DirectoryMetrics
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.servicer import DirectoryServicer
from weir_gateway.directory.source import DirectoryFileSource
from weir_gateway.directory.sql.source import SqlDirectory
from weir_gateway.settings import GatewaySettings

DIRECTORY_SERVICE = DESCRIPTOR.services_by_name["DirectoryService"].full_name
_NOBODY_YET = "tenants: []"


class Control:
    """Parts of the control role; see `GatewayApp`.

    Attributes:
        admin: the servicer of AdminService; one that says why where there is none.
        use_keeper: keeps when keys were used; None without a database.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        clock: Clock,
        metrics: DirectoryMetrics,
        token: SecretStr,
        uses: KeyUses,
    ) -> None:
        database = settings.database_url
        if not settings.directory_file and database is None:
            raise StartupError(
                "directory_file is empty; name a YAML file with tenants, keys and models, give a "
                "database_url, or start with role edge and a directory_address"
            )
        if settings.admin_secret is not None:
            check_secret(settings.admin_secret, token)
        self._settings = settings
        self.publisher = DirectoryPublisher(clock, shared=database is not None)
        self.source: DirectoryFileSource | SqlDirectory
        self.admin: AdminServiceServicer
        self.use_keeper: UseKeeper | None = None
        if database is None:
            self.admin = admin_off(NO_DATABASE)
            self.source = self._file_source(metrics)
        else:
            self.source = self._database_source(database, clock, metrics)
            self.admin = self._admin(self.source, clock)
            self.use_keeper = UseKeeper(self.source, uses)
        self.publisher.on_change(metrics.changed)

    def serve(self, server: grpc.aio.Server) -> None:
        """Adds the service; before the server starts."""
        add_DirectoryServiceServicer_to_server(DirectoryServicer(self.publisher), server)

    async def start(self) -> None:
        """Loads the directory and follows it. Raises StartupError, one line."""
        path = self._settings.directory_file
        try:
            if isinstance(self.source, SqlDirectory):
                await self.source.load(partial(_first_document, path))
            else:
                self.source.load()
        except DirectoryFileError as error:
            raise StartupError(f"directory_file {error}") from None
        self.source.start()
        if self.use_keeper is not None:
            self.use_keeper.start()

    def end_watches(self) -> None:
        """Ends the streams of all followers; they go on with what they hold. Idempotent."""
        self.publisher.close()

    async def stop(self) -> None:
        """Ends it."""
        if self.use_keeper is not None:
            await self.use_keeper.stop()
        await self.source.stop()

    def _file_source(self, metrics: DirectoryMetrics) -> DirectoryFileSource:
        return DirectoryFileSource(
            Path(self._settings.directory_file),
            self.publisher,
            poll_s=self._settings.directory_poll_s,
            on_refused=metrics.refused,
        )

    def _database_source(
        self, url: SecretStr, clock: Clock, metrics: DirectoryMetrics
    ) -> SqlDirectory:
        how = "WEIR_GATEWAY__DATABASE_URL"
        parsed = parse_database_url(url.get_secret_value(), "database_url", how)
        return SqlDirectory(
            parsed,
            self.publisher,
            clock,
            poll_s=self._settings.database_poll_s,
            on_refused=metrics.refused,
        )

    def _admin(self, source: SqlDirectory, clock: Clock) -> AdminServiceServicer:
        secret = self._settings.admin_secret
        if secret is None:
            return admin_off(NO_SECRET)
        return AdminServicer(
            AdminGuard(secret),
            Objects(source, self.publisher),
            KeyRing(source, clock),
            AuditTrail(source),
        )


def _first_document(path: str) -> Document:
    """What an empty database is filled with: the file, or the shipped plans alone."""
    if path:
        return read_document(Path(path))
    return parse_document(_NOBODY_YET, "no directory_file")
