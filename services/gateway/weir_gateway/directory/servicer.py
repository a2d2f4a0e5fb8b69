"""`directory.v1.Watch`: thin over the publisher."""

from collections.abc import AsyncIterator

import structlog

from weir.directory.v1.directory_service_pb2 import Keepalive, WatchRequest, WatchResponse
from weir.directory.v1.directory_service_pb2_grpc import DirectoryServiceServicer
from weir_core.rpc.interceptors.handler import Context
from weir_gateway.directory.publisher import DirectoryPublisher

_log = structlog.get_logger(__name__)


class DirectoryServicer(DirectoryServiceServicer):
    """Serves the directory to every service of the deployment."""

    def __init__(self, publisher: DirectoryPublisher, *, keepalive_s: float = 5.0) -> None:
        self._publisher = publisher
        self._keepalive_s = keepalive_s

    async def Watch(  # noqa: N802 - named by the contract
        self,
        request: WatchRequest,
        context: Context,
    ) -> AsyncIterator[WatchResponse]:
        """Sends the snapshot, then deltas, and a keepalive while nothing changes.

        The stream ends with the service, whose followers then look for another.
        """
        publisher = self._publisher
        publisher.required  # noqa: B018 - refuses before the first load
        _log.info("directory watcher connected", watcher=request.watcher[:64])
        version = request.known_version
        if version == publisher.version:
            yield WatchResponse(keepalive=Keepalive(version=version))
        while not publisher.closed:
            if not await publisher.wait_change(version, self._keepalive_s):
                yield WatchResponse(keepalive=Keepalive(version=version))
                continue
            delta = publisher.delta_from(version)
            version = publisher.version
            if delta is not None:
                yield WatchResponse(delta=delta)
            else:
                yield WatchResponse(snapshot=publisher.snapshot)
