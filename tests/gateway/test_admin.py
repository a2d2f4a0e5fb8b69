"""AdminService: its secret, its pages, and where it is off."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from pydantic import SecretStr

from tests.gateway.fake_server import TOKEN
from tests.gateway.harness import running_gateway
from weir.directory.v1.directory_pb2 import User
from weir.gateway.v1 import admin_service_pb2 as pb
from weir.gateway.v1.admin_service_pb2_grpc import AdminServiceStub
from weir_core.errors import InvalidField, Reason
from weir_core.errors.startup import StartupError
from weir_core.errors.status import from_rpc_error
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.admin.secret import check_secret
from weir_gateway.app import GatewayApp
from weir_gateway.paging import page_of
from weir_gateway.settings import GatewaySettings

SECRET = "an-admin-secret-of-more-than-32-characters"
METHODS = [one.name for one in pb.DESCRIPTOR.services_by_name["AdminService"].methods]


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        ("", "has 0 characters; it must have 32 or more"),
        (SECRET[:31], "has 31 characters; it must have 32 or more"),
        ("abcabcab" * 8, "has 3 different characters; it must have 12 or more"),
        (TOKEN.get_secret_value(), "admin_secret is the cluster secret"),
    ],
)
async def test_a_weak_secret_is_refused_at_start_and_not_quoted(
    tmp_path: Path, secret: str, told: str
) -> None:
    with pytest.raises(StartupError, match=told) as caught:
        check_secret(SecretStr(secret), TOKEN)
    assert not secret or secret not in str(caught.value)
    database = SecretStr(f"sqlite:///{tmp_path}/directory.sqlite")
    given: dict[str, Any] = {"database_url": database, "admin_secret": SecretStr(secret)}
    settings = GatewaySettings(**(given | {"cluster_token": TOKEN}))
    telemetry = Telemetry(tracing=Tracing("gateway"), registry=create_registry())
    with pytest.raises(StartupError, match=told):
        GatewayApp(settings, telemetry)


async def _reason(channel: Any, method: str, header: str) -> Reason:
    request = getattr(pb, f"{method}Request")()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(AdminServiceStub(channel), method)(
            request, metadata=(("authorization", header),), timeout=20
        )
    return from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL).reason


async def test_every_rpc_asks_for_the_secret_and_takes_no_other(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/directory.sqlite"
    async with running_gateway(tmp_path, database_url=database, admin_secret=SECRET) as gateway:
        wrong = {
            "": Reason.API_KEY_MISSING,
            f"Bearer {gateway.key.secret}": Reason.API_KEY_INVALID,
            f"Bearer {TOKEN.get_secret_value()}": Reason.API_KEY_INVALID,
            f"Bearer {SECRET}x": Reason.API_KEY_INVALID,
        }
        for method in METHODS:
            for header, reason in wrong.items():
                assert await _reason(gateway.channel, method, header) is reason, method
        await _pages(AdminServiceStub(gateway.channel))


async def _pages(stub: Any) -> None:
    """Every user once, in order, whatever the size of a page; and nothing secret in answers."""
    call: dict[str, Any] = {"metadata": (("authorization", f"Bearer {SECRET}"),), "timeout": 20}
    for name in "dbca":
        await stub.PutUser(pb.PutUserRequest(user=User(id=name, tenant_id="acme")), **call)
    seen: list[str] = []
    token = ""
    while True:
        request = pb.ListUsersRequest(tenant_id="acme", page_size=2, page_token=token)
        page = await stub.ListUsers(request, **call)
        seen.extend(user.id for user in page.users)
        token = page.next_page_token
        if not token:
            break
    assert seen == ["a", "alice", "b", "c", "d"]
    keys = await stub.ListKeys(pb.ListKeysRequest(), **call)
    assert all(not key.hashes for key in keys.api_keys)
    events: list[Any] = []
    while True:
        trail = await stub.ListAuditEvents(
            pb.ListAuditEventsRequest(tenant_id="acme", page_size=2, page_token=token), **call
        )
        events.extend(trail.events)
        token = trail.next_page_token
        if not token:
            break
    assert [event.object for event in events[:4]] == [f"user/acme/{name}" for name in "acbd"]
    assert len({event.directory_version for event in events[:4]}) == 4
    # Writers at the same moment take turns; none is lost.
    puts = [pb.PutUserRequest(user=User(id=f"u{n}", tenant_id="acme")) for n in range(8)]
    answers = await asyncio.gather(*(stub.PutUser(put, **call) for put in puts))
    assert len({answer.directory_version for answer in answers}) == 8


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "the directory is a file"),
        ({"admin_secret": SECRET}, "the directory is a file"),
        ({"database_url": "sqlite:///{}/d.sqlite"}, "set WEIR_ADMIN_SECRET"),
    ],
)
async def test_where_it_is_off_it_says_why(
    tmp_path: Path, settings: dict[str, str], told: str
) -> None:
    given: dict[str, Any] = {name: value.format(tmp_path) for name, value in settings.items()}
    async with running_gateway(tmp_path, **given) as gateway:
        for method in METHODS:
            header = f"Bearer {SECRET}"
            assert await _reason(gateway.channel, method, header) is Reason.ADMINISTRATION_OFF
        stub: Any = AdminServiceStub(gateway.channel)
        with pytest.raises(grpc.aio.AioRpcError, match=told):
            await stub.ListKeys(pb.ListKeysRequest())
        assert json.loads((await gateway.chat(max_tokens=1)).text)["usage"]


@pytest.mark.parametrize(
    ("size", "token", "field"), [(-1, "", "page_size"), (1001, "", "page_size"), (1, "%", "token")]
)
def test_bounds_of_pages_are_named(size: int, token: str, field: str) -> None:
    with pytest.raises(InvalidField, match=field):
        page_of(["a"], str, size, token)
