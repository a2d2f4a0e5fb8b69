"""`weir.gateway.v1.AdminService`: thin over `Objects`, `KeyRing` and the audit trail."""

# ruff: noqa: N802 - methods are named by the contract

from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from weir.directory.v1.directory_pb2 import ApiKey
from weir.gateway.v1.admin_service_pb2 import (
    CreateKeyRequest,
    CreateKeyResponse,
    DeletePlanRequest,
    DeletePlanResponse,
    DeleteTenantRequest,
    DeleteTenantResponse,
    DeleteUserRequest,
    DeleteUserResponse,
    GetPlanRequest,
    GetPlanResponse,
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
    ListTenantsRequest,
    ListTenantsResponse,
    ListUsersRequest,
    ListUsersResponse,
    PutPlanRequest,
    PutPlanResponse,
    PutTenantRequest,
    PutTenantResponse,
    PutUserRequest,
    PutUserResponse,
    RevokeKeyRequest,
    RevokeKeyResponse,
    RotateKeyRequest,
    RotateKeyResponse,
)
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.rpc.interceptors.handler import Context
from weir_gateway.admin.audit_trail import AuditTrail
from weir_gateway.admin.fleet_servicer import FleetServicer
from weir_gateway.admin.key_ring import KeyRing, without_hashes
from weir_gateway.admin.objects import Objects, user_name
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.directory.sql.records import Kind
from weir_gateway.paging import page_of


class AdminServicer(FleetServicer):
    """Serves administrators.

    Args:
        guard: lets them in.
        objects, keys, trail: see there.
    """

    def __init__(
        self, guard: AdminGuard, objects: Objects, keys: KeyRing, trail: AuditTrail
    ) -> None:
        super().__init__(guard, objects)
        self._keys = keys
        self._trail = trail

    async def PutTenant(self, request: PutTenantRequest, context: Context) -> PutTenantResponse:
        """Creates or replaces a tenant."""
        actor = self.admit(context)
        stored = await self.objects.put(
            actor, Kind.TENANT, request.tenant, request.expected_version
        )
        return PutTenantResponse(tenant=stored.message, directory_version=stored.version)

    async def GetTenant(self, request: GetTenantRequest, context: Context) -> GetTenantResponse:
        """Reads a tenant."""
        self.admit(context)
        stored = self.objects.get(Kind.TENANT, request.tenant_id)
        return GetTenantResponse(tenant=stored.message, directory_version=stored.version)

    async def ListTenants(
        self, request: ListTenantsRequest, context: Context
    ) -> ListTenantsResponse:
        """Lists tenants by id."""
        self.admit(context)
        page, token = page_of(
            self.objects.snapshot.tenants,
            lambda tenant: tenant.id,
            request.page_size,
            request.page_token,
        )
        return ListTenantsResponse(tenants=page, next_page_token=token)

    async def DeleteTenant(
        self, request: DeleteTenantRequest, context: Context
    ) -> DeleteTenantResponse:
        """Removes a tenant with its users and keys."""
        actor = self.admit(context)
        version = await self.objects.delete(actor, Kind.TENANT, request.tenant_id)
        return DeleteTenantResponse(directory_version=version)

    async def PutUser(self, request: PutUserRequest, context: Context) -> PutUserResponse:
        """Creates or replaces a user."""
        actor = self.admit(context)
        stored = await self.objects.put(actor, Kind.USER, request.user, request.expected_version)
        return PutUserResponse(user=stored.message, directory_version=stored.version)

    async def GetUser(self, request: GetUserRequest, context: Context) -> GetUserResponse:
        """Reads a user."""
        self.admit(context)
        stored = self.objects.get(Kind.USER, user_name(request.tenant_id, request.user_id))
        return GetUserResponse(user=stored.message, directory_version=stored.version)

    async def ListUsers(self, request: ListUsersRequest, context: Context) -> ListUsersResponse:
        """Lists users by tenant and id."""
        self.admit(context)
        of = self._known(request.tenant_id)
        users = [user for user in self.objects.snapshot.users if of in ("", user.tenant_id)]
        page, token = page_of(
            users, lambda user: f"{user.tenant_id}/{user.id}", request.page_size, request.page_token
        )
        return ListUsersResponse(users=page, next_page_token=token)

    async def DeleteUser(self, request: DeleteUserRequest, context: Context) -> DeleteUserResponse:
        """Removes a user with its keys."""
        actor = self.admit(context)
        version = await self.objects.delete(
            actor, Kind.USER, user_name(request.tenant_id, request.user_id)
        )
        return DeleteUserResponse(directory_version=version)

    async def PutPlan(self, request: PutPlanRequest, context: Context) -> PutPlanResponse:
        """Creates or replaces a plan."""
        actor = self.admit(context)
        stored = await self.objects.put(actor, Kind.PLAN, request.plan, request.expected_version)
        return PutPlanResponse(plan=stored.message, directory_version=stored.version)

    async def GetPlan(self, request: GetPlanRequest, context: Context) -> GetPlanResponse:
        """Reads a plan."""
        self.admit(context)
        stored = self.objects.get(Kind.PLAN, request.plan_id)
        return GetPlanResponse(plan=stored.message, directory_version=stored.version)

    async def ListPlans(self, request: ListPlansRequest, context: Context) -> ListPlansResponse:
        """Lists plans by id."""
        self.admit(context)
        page, token = page_of(
            self.objects.snapshot.plans,
            lambda plan: plan.id,
            request.page_size,
            request.page_token,
        )
        return ListPlansResponse(plans=page, next_page_token=token)

    async def DeletePlan(self, request: DeletePlanRequest, context: Context) -> DeletePlanResponse:
        """Removes a plan."""
        actor = self.admit(context)
        version = await self.objects.delete(actor, Kind.PLAN, request.plan_id)
        return DeletePlanResponse(directory_version=version)

    async def CreateKey(self, request: CreateKeyRequest, context: Context) -> CreateKeyResponse:
        """Makes a key; its secret is in this answer and nowhere else."""
        made = await self._keys.create(self.admit(context), request)
        return CreateKeyResponse(api_key=made.key, secret=made.secret)

    async def ListKeys(self, request: ListKeysRequest, context: Context) -> ListKeysResponse:
        """Lists keys by public id, without secrets and hashes."""
        self.admit(context)
        of = self._known(request.tenant_id)
        keys = [key for key in self.objects.snapshot.api_keys if of in ("", key.tenant_id)]
        page, token = page_of(keys, _key_id, request.page_size, request.page_token)
        return ListKeysResponse(
            api_keys=map(without_hashes, page),
            next_page_token=token,
            last_use_times=await self._keys.last_uses(page),
        )

    async def RotateKey(self, request: RotateKeyRequest, context: Context) -> RotateKeyResponse:
        """Gives a key a new secret."""
        actor, overlap = self.admit(context), _overlap(request.overlap)
        made = await self._keys.rotate(actor, request.api_key_id, overlap)
        return RotateKeyResponse(api_key=made.key, secret=made.secret)

    async def RevokeKey(self, request: RevokeKeyRequest, context: Context) -> RevokeKeyResponse:
        """Ends a key on every gateway."""
        version = await self._keys.revoke(self.admit(context), request.api_key_id)
        return RevokeKeyResponse(directory_version=version)

    async def ListAuditEvents(
        self, request: ListAuditEventsRequest, context: Context
    ) -> ListAuditEventsResponse:
        """Lists changes, newest first."""
        self.admit(context)
        page, token = await self._trail.page(
            request.tenant_id, request.page_size, request.page_token
        )
        return ListAuditEventsResponse(events=page, next_page_token=token)

    def _known(self, tenant_id: str) -> str:
        """The tenant that a list is to show; empty for all. Raises WeirError(NOT_FOUND)."""
        tenants = self.objects.snapshot.tenants
        if tenant_id and all(tenant.id != tenant_id for tenant in tenants):
            raise WeirError(
                Reason.NOT_FOUND,
                f"there is no tenant {tenant_id[:80]!r}; ListTenants has those that there are",
                field="tenant_id",
            )
        return tenant_id


def _key_id(key: ApiKey) -> str:
    return key.id


def _overlap(duration: Duration) -> timedelta:
    try:
        return duration.ToTimedelta()
    except OverflowError:
        raise InvalidField("overlap", f"{duration.seconds} s", "from 0 to 30 days") from None
