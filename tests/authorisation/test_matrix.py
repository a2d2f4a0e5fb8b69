"""A second tenant reaches nothing of the first, and nobody reaches anything without his key.

The rows are compared with the contracts and the routes: what is new and has no row fails here.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.authorisation.calls import Told, call_http, call_rpc, rpc_request
from tests.authorisation.site import ADMIN_SECRET, MAKERS, Site, Thing, open_site
from tests.authorisation.surface import every_route, every_rpc
from tests.authorisation.table import (
    ROUTES,
    RPCS,
    Door,
    HttpRow,
)
from tests.gateway.fake_server import TOKEN

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERY_RPC = {rpc.name: rpc for rpc in every_rpc()}
FOR_GATEWAYS = ("DirectoryService", "InsightPeerService", "ProcessService")
OBJECT_RPCS = [name for name, row in RPCS.items() if row.object]
OBJECT_ROUTES = [name for name, row in ROUTES.items() if row.object]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with open_site(tmp_path_factory.mktemp("site")) as site:
        yield site


def rpcs_of(*doors: Door) -> list[str]:
    return [name for name, row in RPCS.items() if row.door in doors]


def routes_of(door: Door) -> list[str]:
    return [name for name, row in ROUTES.items() if row.door is door]


async def test_every_rpc_has_a_row() -> None:
    assert RPCS.keys() == EVERY_RPC.keys()


async def test_every_route_has_a_row(site: Site) -> None:
    edge = site.gateway.app.edge
    assert edge is not None
    routes = every_route(edge.http_app())
    found = {f"{method} {path}" for path, methods in routes.items() for method in methods}
    assert found == ROUTES.keys()


async def test_every_type_of_object_is_tried() -> None:
    named = {row.object for row in RPCS.values()} | {row.object for row in ROUTES.values()}
    assert named - {""} == MAKERS.keys() | {"model"}


@pytest.mark.parametrize("name", rpcs_of(Door.TENANT))
async def test_an_rpc_of_tenants_takes_no_other_key(site: Site, name: str) -> None:
    rpc, row = EVERY_RPC[name], RPCS[name]
    for who, (header, reason) in site.refused.items():
        told = await call_rpc(site.gateway.channel, rpc, rpc_request(rpc, row), header)
        assert (who, told.reason) == (who, reason.value)


@pytest.mark.parametrize("name", rpcs_of(Door.VIEWER))
async def test_an_rpc_of_viewers_takes_a_key_or_the_admin_secret(site: Site, name: str) -> None:
    rpc, row = EVERY_RPC[name], RPCS[name]
    for who, (header, reason) in site.refused.items():
        told = await call_rpc(site.gateway.channel, rpc, rpc_request(rpc, row), header)
        if who == "admin secret":
            assert told.code != "UNAUTHENTICATED"
        else:
            assert (who, told.reason) == (who, reason.value)


@pytest.mark.parametrize("name", routes_of(Door.TENANT))
async def test_a_route_of_tenants_takes_no_other_key(site: Site, name: str) -> None:
    for who, (header, reason) in site.refused.items():
        if name == "GET /metrics" and who in ("admin secret", "cluster secret"):
            continue
        told = await call_http(site.gateway.http, name, ROUTES[name], header)
        assert told.code in ("401", "403"), told
        # Anthropic's error object has no room for our reason.
        if "messages" not in name:
            assert (who, told.reason) == (who, reason.value)


@pytest.mark.parametrize("name", rpcs_of(Door.ADMIN))
async def test_an_rpc_of_administrators_takes_their_secret_alone(site: Site, name: str) -> None:
    rpc, row = EVERY_RPC[name], RPCS[name]
    request = rpc_request(rpc, row)
    wrong = {who: header for who, (header, _) in site.refused.items() if who != "admin secret"}
    wrong["a tenant's key"] = site.header(site.gateway.key.secret)
    wrong["nearly"] = f"Bearer {ADMIN_SECRET[:-1]}"
    for who, header in wrong.items():
        told = await call_rpc(site.gateway.channel, rpc, request, header)
        assert (who, told.code) == (who, "UNAUTHENTICATED")
    told = await call_rpc(site.gateway.channel, rpc, request, f"Bearer {ADMIN_SECRET}")
    assert told.code != "UNAUTHENTICATED"


@pytest.mark.parametrize("name", rpcs_of(Door.CLUSTER, Door.PRIVATE))
async def test_the_public_address_serves_no_other_service(site: Site, name: str) -> None:
    """Apart from what other gateways ask for with the cluster secret."""
    rpc = EVERY_RPC[name]
    headers = {header for header, _ in site.refused.values()} - {cluster()}
    headers |= {site.header(site.gateway.key.secret)}
    for header in sorted(headers):
        told = await call_rpc(site.gateway.channel, rpc, rpc.request_class(), header)
        for_gateways = name.split("/")[0].endswith(FOR_GATEWAYS)
        assert told.code == ("UNAUTHENTICATED" if for_gateways else "UNIMPLEMENTED")


@pytest.mark.parametrize("name", OBJECT_RPCS)
async def test_anothers_object_is_none_over_grpc(site: Site, name: str) -> None:
    rpc, row = EVERY_RPC[name], RPCS[name]

    async def call(secret: str, id_: str) -> Told:
        request = rpc_request(rpc, row, id_)
        return await call_rpc(site.gateway.channel, rpc, request, site.header(secret))

    await _looks_like_none(site, row.object, call, "NOT_FOUND", row.owner_gets)


@pytest.mark.parametrize("name", OBJECT_ROUTES)
async def test_anothers_object_is_none_over_http(site: Site, name: str) -> None:
    row = ROUTES[name]

    async def call(secret: str, id_: str) -> Told:
        return await call_http(site.gateway.http, name, row, site.header(secret), id_)

    await _looks_like_none(site, row.object, call, row.not_found, row.owner_gets)


async def _looks_like_none(
    site: Site,
    kind: str,
    call: Callable[[str, str], Any],
    not_found: str,
    owner_gets: tuple[str, ...],
) -> None:
    """A stolen id gets what a guessed one does; the owner, after both, what is his."""
    thing = await site.thing(kind)
    stolen = await call(thing.thief, thing.id)
    guessed = await call(thing.thief, thing.guess)
    assert stolen.code == not_found
    assert stolen.without(thing.id) == guessed.without(thing.guess)
    for malformed in ("x" * 5_000, "../../etc/passwd", "' OR 1=1 --", "\u0416", "%00"):
        told = await call(thing.thief, malformed)
        assert not told.code.startswith(("2", "5")), (malformed, told)
        assert told.code not in ("OK", "INTERNAL", "UNKNOWN"), (malformed, told)
    owned = await call(thing.owner, thing.id)
    assert owned.code in owner_gets, owned


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def things(site: Site) -> list[Thing]:
    """One of each."""
    return [await site.thing(kind) for kind in (*MAKERS, "model")]


_DOORS = (Door.TENANT, Door.VIEWER)
LISTS = [name for name, row in RPCS.items() if row.door in _DOORS and "/List" in name]


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_over_grpc_holds_the_callers_own(
    site: Site, things: list[Thing], name: str
) -> None:
    rpc = EVERY_RPC[name]
    request = rpc_request(rpc, RPCS[name])
    for thing in things:
        told = await call_rpc(site.gateway.channel, rpc, request, site.header(thing.thief))
        assert told.code == "OK"
        assert thing.id not in told.body


PAGES = [name for name in ROUTES if name.startswith("GET ") and "{" not in name]


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_over_http_holds_the_callers_own(
    site: Site, things: list[Thing], name: str
) -> None:
    for thing in things:
        told = await call_http(site.gateway.http, name, ROUTES[name], site.header(thing.thief))
        assert told.code == "200"
        assert thing.id not in told.body


async def test_a_route_that_is_open_needs_no_key(site: Site) -> None:
    for name in routes_of(Door.OPEN):
        told = await call_http(site.gateway.http, name, HttpRow(Door.OPEN), "")
        assert told.code == "200", name


def cluster() -> str:
    return f"Bearer {TOKEN.get_secret_value()}"
