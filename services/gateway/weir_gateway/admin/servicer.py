"""`weir.gateway.v1.AdminService`: thin over `Objects`, `KeyRing` and the audit trail."""

# ruff: noqa: N802 - methods are named by the contract

from weir.directory.v1.directory_pb2 import ApiKey
from weir.gateway.v1.admin_service_pb2 import (
    CreateKeyRequest,
    CreateKeyResponse,
    DeletePlanRequest,
    DeletePlanResponse,
    DeleteServedModelRequest,
    DeleteServedModelResponse,
    DeleteTenantRequest,
    DeleteTenantResponse,
    DeleteUserRequest,
    DeleteUserResponse,
    GetPlanRequest,
    GetPlanResponse,
    GetServedModelRequest,
    GetServedModelResponse,
    GetTenantRequest,
    GetTenantResponse,
    GetUserRequest,
    GetUserResponse,
    ListAuditEventsRequest,
    ListAuditEventsResponse,
    ListKeysRequest,
    ListKeysResponse,
    ListPlansRequest,
    ListPlansResponse,
    ListServedModelsRequest,
    ListServedModelsResponse,
    ListTenantsRequest,
    ListTenantsResponse,
    ListUsersRequest,
    ListUsersResponse,
    PutPlanRequest,
    PutPlanResponse,
    PutServedModelRequest,
    PutServedModelResponse,
    PutTenantRequest,
    PutTenantResponse,
    PutUserRequest,
    PutUserResponse,
    RevokeKeyRequest,
    RevokeKeyResponse,
    RotateKeyRequest,
    RotateKeyResponse,
)
from weir.gateway.v1.admin_service_pb2_grpc import AdminServiceServicer
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_gateway.admin.audit_trail import AuditTrail, actor_of
from weir_gateway.admin.key_ring import KeyRing, without_hashes
from weir_gateway.admin.objects import Objects, user_name
from weir_gateway.admin.pages import page_of
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.directory.sql.records import Kind


class AdminServicer(AdminServiceServicer):
    """Serves administrators.

    Args:
        guard: lets them in.
        objects, keys, trail: see there.
    """

    def __init__(
        self, guard: AdminGuard, objects: Objects, keys: KeyRing, trail: AuditTrail
    ) -> None:
        self._guard = guard
        self._objects = objects
        self._keys = keys
        self._trail = trail

    async def PutTenant(self, request: PutTenantRequest, context: Context) -> PutTenantResponse:
        """Creates or replaces a tenant."""
        actor = self._admit(context)
        stored = await self._objects.put(
            actor, Kind.TENANT, request.tenant, request.expected_version
        )
        return PutTenantResponse(tenant=stored.message, directory_version=stored.version)

    async def GetTenant(self, request: GetTenantRequest, context: Context) -> GetTenantResponse:
        """Reads a tenant."""
        self._admit(context)
        stored = self._objects.get(Kind.TENANT, request.tenant_id)
        return GetTenantResponse(tenant=stored.message, directory_version=stored.version)

    async def ListTenants(
        self, request: ListTenantsRequest, context: Context
    ) -> ListTenantsResponse:
        """Lists tenants by id."""
        self._admit(context)
        page, token = page_of(
            self._objects.snapshot.tenants,
            lambda tenant: tenant.id,
            request.page_size,
            request.page_token,
        )
        return ListTenantsResponse(tenants=page, next_page_token=token)

    async def DeleteTenant(
        self, request: DeleteTenantRequest, context: Context
    ) -> DeleteTenantResponse:
        """Removes a tenant with its users and keys."""
        actor = self._admit(context)
        version = await self._objects.delete(actor, Kind.TENANT, request.tenant_id)
        return DeleteTenantResponse(directory_version=version)

    async def PutUser(self, request: PutUserRequest, context: Context) -> PutUserResponse:
        """Creates or replaces a user."""
        actor = self._admit(context)
        stored = await self._objects.put(actor, Kind.USER, request.user, request.expected_version)
        return PutUserResponse(user=stored.message, directory_version=stored.version)

    async def GetUser(self, request: GetUserRequest, context: Context) -> GetUserResponse:
        """Reads a user."""
        self._admit(context)
        stored = self._objects.get(Kind.USER, user_name(request.tenant_id, request.user_id))
        return GetUserResponse(user=stored.message, directory_version=stored.version)

    async def ListUsers(self, request: ListUsersRequest, context: Context) -> ListUsersResponse:
        """Lists users by tenant and id."""
        self._admit(context)
        of = request.tenant_id
        users = [user for user in self._objects.snapshot.users if of in ("", user.tenant_id)]
        page, token = page_of(
            users, lambda user: f"{user.tenant_id}/{user.id}", request.page_size, request.page_token
        )
        return ListUsersResponse(users=page, next_page_token=token)

    async def DeleteUser(self, request: DeleteUserRequest, context: Context) -> DeleteUserResponse:
        """Removes a user with its keys."""
        actor = self._admit(context)
        version = await self._objects.delete(
            actor, Kind.USER, user_name(request.tenant_id, request.user_id)
        )
        return DeleteUserResponse(directory_version=version)

    async def PutPlan(self, request: PutPlanRequest, context: Context) -> PutPlanResponse:
        """Creates or replaces a plan."""
        actor = self._admit(context)
        stored = await self._objects.put(actor, Kind.PLAN, request.plan, request.expected_version)
        return PutPlanResponse(plan=stored.message, directory_version=stored.version)

    async def GetPlan(self, request: GetPlanRequest, context: Context) -> GetPlanResponse:
        """Reads a plan."""
        self._admit(context)
        stored = self._objects.get(Kind.PLAN, request.plan_id)
        return GetPlanResponse(plan=stored.message, directory_version=stored.version)

    async def ListPlans(self, request: ListPlansRequest, context: Context) -> ListPlansResponse:
        """Lists plans by id."""
        self._admit(context)
        page, token = page_of(
            self._objects.snapshot.plans,
            lambda plan: plan.id,
            request.page_size,
            request.page_token,
        )
        return ListPlansResponse(plans=page, next_page_token=token)

    async def DeletePlan(self, request: DeletePlanRequest, context: Context) -> DeletePlanResponse:
        """Removes a plan."""
        actor = self._admit(context)
        version = await self._objects.delete(actor, Kind.PLAN, request.plan_id)
        return DeletePlanResponse(directory_version=version)

    async def PutServedModel(
        self, request: PutServedModelRequest, context: Context
    ) -> PutServedModelResponse:
        """Creates or replaces a model."""
        actor = self._admit(context)
        stored = await self._objects.put(actor, Kind.MODEL, request.model, request.expected_version)
        return PutServedModelResponse(model=stored.message, directory_version=stored.version)

    async def GetServedModel(
        self, request: GetServedModelRequest, context: Context
    ) -> GetServedModelResponse:
        """Reads a model."""
        self._admit(context)
        stored = self._objects.get(Kind.MODEL, request.model_name)
        return GetServedModelResponse(model=stored.message, directory_version=stored.version)

    async def ListServedModels(
        self, request: ListServedModelsRequest, context: Context
    ) -> ListServedModelsResponse:
        """Lists models by name."""
        self._admit(context)
        page, token = page_of(
            self._objects.snapshot.models,
            lambda model: model.name,
            request.page_size,
            request.page_token,
        )
        return ListServedModelsResponse(models=page, next_page_token=token)

    async def DeleteServedModel(
        self, request: DeleteServedModelRequest, context: Context
    ) -> DeleteServedModelResponse:
        """Removes a model."""
        actor = self._admit(context)
        version = await self._objects.delete(actor, Kind.MODEL, request.model_name)
        return DeleteServedModelResponse(directory_version=version)

    async def CreateKey(self, request: CreateKeyRequest, context: Context) -> CreateKeyResponse:
        """Makes a key; its secret is in this answer and nowhere else."""
        made = await self._keys.create(self._admit(context), request)
        return CreateKeyResponse(api_key=made.key, secret=made.secret)

    async def ListKeys(self, request: ListKeysRequest, context: Context) -> ListKeysResponse:
        """Lists keys by public id, without secrets and hashes."""
        self._admit(context)
        of = request.tenant_id
        keys = [key for key in self._objects.snapshot.api_keys if of in ("", key.tenant_id)]
        page, token = page_of(keys, _key_id, request.page_size, request.page_token)
        return ListKeysResponse(api_keys=map(without_hashes, page), next_page_token=token)

    async def RotateKey(self, request: RotateKeyRequest, context: Context) -> RotateKeyResponse:
        """Gives a key a new secret."""
        overlap = request.overlap.ToTimedelta()
        made = await self._keys.rotate(self._admit(context), request.api_key_id, overlap)
        return RotateKeyResponse(api_key=made.key, secret=made.secret)

    async def RevokeKey(self, request: RevokeKeyRequest, context: Context) -> RevokeKeyResponse:
        """Ends a key on every gateway."""
        version = await self._keys.revoke(self._admit(context), request.api_key_id)
        return RevokeKeyResponse(directory_version=version)

    async def ListAuditEvents(
        self, request: ListAuditEventsRequest, context: Context
    ) -> ListAuditEventsResponse:
        """Lists changes, newest first."""
        self._admit(context)
        page, token = await self._trail.page(
            request.tenant_id, request.page_size, request.page_token
        )
        return ListAuditEventsResponse(events=page, next_page_token=token)

    def _admit(self, context: Context) -> str:
        """Checks the caller's secret; returns who it says it is."""
        metadata = context.invocation_metadata()
        self._guard.check(first_value(metadata, AUTHORIZATION))
        return actor_of(metadata)


def _key_id(key: ApiKey) -> str:
    return key.id
