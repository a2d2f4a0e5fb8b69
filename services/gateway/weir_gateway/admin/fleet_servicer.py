"""What of AdminService is about the fleet: models, pools, and limits over everybody."""

# ruff: noqa: N802 - methods are named by the contract

from weir.gateway.v1.admin_service_pb2 import (
    DeletePoolRequest,
    DeletePoolResponse,
    DeleteServedModelRequest,
    DeleteServedModelResponse,
    GetClusterLimitsRequest,
    GetClusterLimitsResponse,
    GetPoolRequest,
    GetPoolResponse,
    GetServedModelRequest,
    GetServedModelResponse,
    ListPoolsRequest,
    ListPoolsResponse,
    ListServedModelsRequest,
    ListServedModelsResponse,
    PutClusterLimitsRequest,
    PutClusterLimitsResponse,
    PutPoolRequest,
    PutPoolResponse,
    PutServedModelRequest,
    PutServedModelResponse,
)
from weir.gateway.v1.admin_service_pb2_grpc import AdminServiceServicer
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_gateway.admin.audit_trail import actor_of
from weir_gateway.admin.objects import Objects
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.directory.sql.records import Kind
from weir_gateway.paging import page_of


class FleetServicer(AdminServiceServicer):
    """Serves administrators.

    Args:
        guard: lets them in.
        objects: see there.
    """

    def __init__(self, guard: AdminGuard, objects: Objects) -> None:
        self._guard = guard
        self.objects = objects

    async def PutServedModel(
        self, request: PutServedModelRequest, context: Context
    ) -> PutServedModelResponse:
        """Creates or replaces a model."""
        actor = self.admit(context)
        stored = await self.objects.put(actor, Kind.MODEL, request.model, request.expected_version)
        return PutServedModelResponse(model=stored.message, directory_version=stored.version)

    async def GetServedModel(
        self, request: GetServedModelRequest, context: Context
    ) -> GetServedModelResponse:
        """Reads a model."""
        self.admit(context)
        stored = self.objects.get(Kind.MODEL, request.model_name)
        return GetServedModelResponse(model=stored.message, directory_version=stored.version)

    async def ListServedModels(
        self, request: ListServedModelsRequest, context: Context
    ) -> ListServedModelsResponse:
        """Lists models by name."""
        self.admit(context)
        page, token = page_of(
            self.objects.snapshot.models,
            lambda model: model.name,
            request.page_size,
            request.page_token,
        )
        return ListServedModelsResponse(models=page, next_page_token=token)

    async def DeleteServedModel(
        self, request: DeleteServedModelRequest, context: Context
    ) -> DeleteServedModelResponse:
        """Removes a model."""
        actor = self.admit(context)
        version = await self.objects.delete(actor, Kind.MODEL, request.model_name)
        return DeleteServedModelResponse(directory_version=version)

    async def PutPool(self, request: PutPoolRequest, context: Context) -> PutPoolResponse:
        """Creates or replaces a pool."""
        actor = self.admit(context)
        stored = await self.objects.put(actor, Kind.POOL, request.pool, request.expected_version)
        return PutPoolResponse(pool=stored.message, directory_version=stored.version)

    async def GetPool(self, request: GetPoolRequest, context: Context) -> GetPoolResponse:
        """Reads a pool."""
        self.admit(context)
        stored = self.objects.get(Kind.POOL, request.pool_name)
        return GetPoolResponse(pool=stored.message, directory_version=stored.version)

    async def ListPools(self, request: ListPoolsRequest, context: Context) -> ListPoolsResponse:
        """Lists pools by name."""
        self.admit(context)
        page, token = page_of(
            self.objects.snapshot.pools,
            lambda pool: pool.name,
            request.page_size,
            request.page_token,
        )
        return ListPoolsResponse(pools=page, next_page_token=token)

    async def DeletePool(self, request: DeletePoolRequest, context: Context) -> DeletePoolResponse:
        """Removes a pool."""
        actor = self.admit(context)
        version = await self.objects.delete(actor, Kind.POOL, request.pool_name)
        return DeletePoolResponse(directory_version=version)

    async def GetClusterLimits(
        self, request: GetClusterLimitsRequest, context: Context
    ) -> GetClusterLimitsResponse:
        """Reads the limits over everybody."""
        self.admit(context)
        limits, version = self.objects.snapshot.cluster_limits, self.objects.version
        return GetClusterLimitsResponse(limits=limits, directory_version=version)

    async def PutClusterLimits(
        self, request: PutClusterLimitsRequest, context: Context
    ) -> PutClusterLimitsResponse:
        """Replaces the limits over everybody."""
        actor = self.admit(context)
        limits, version = await self.objects.put_cluster_limits(
            actor, request.limits, request.expected_version
        )
        return PutClusterLimitsResponse(limits=limits, directory_version=version)

    def admit(self, context: Context) -> str:
        """Checks the caller's secret; returns who it says it is."""
        metadata = context.invocation_metadata()
        self._guard.check(first_value(metadata, AUTHORIZATION))
        return actor_of(metadata)
