"""The console: nobody without a session, no tenant where administrators are, nor at another's."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.authorisation.console_table import CONSOLE, Who
from tests.authorisation.site import ADMIN_SECRET, Site, open_site
from tests.authorisation.surface import every_route
from tests.gateway.console.browser import Browser, browser
from tests.gateway.fake_server import TOKEN
from tests.gateway.harness import running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

_WITH_OIDC = {name for name in CONSOLE if "/oidc/" in name}


def names(*who: Who) -> list[str]:
    return [name for name, row in CONSOLE.items() if row.who in who and name not in _WITH_OIDC]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with open_site(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def thief(site: Site) -> AsyncIterator[Browser]:
    """Of globex."""
    async with browser(site.gateway, site.gateway.other_key.secret) as one:
        yield one


async def call(
    one: Browser, name: str, id_: str = "nothing", *, shown: bool = True, **headers: str
) -> httpx2.Response:
    """A call of a row with an id where it has a place for one."""
    method, _, path = name.partition(" ")
    query = {CONSOLE[name].query: id_} if CONSOLE[name].query else {}
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + id_ + rest.partition("}")[2]
    if shown and one.session:
        headers["x-weir-csrf"] = one.session["csrf"]
    return await one.http.request(method, path, params=query, headers=headers)


async def test_every_route_of_the_console_has_a_row(tmp_path: Path) -> None:
    console = {
        "public_url": "https://weir.example.com",
        "oidc_issuer": "https://login.example.com",
        "oidc_client_id": "weir",
        "oidc_roles": {"a": "admin"},
    }
    async with running_gateway(tmp_path, console=console) as gateway:
        assert gateway.app.console is not None
        routes = every_route(gateway.app.console.door.app)
    assert {f"{method} {path}" for path, methods in routes.items() for method in methods} == (
        CONSOLE.keys()
    )


@pytest.mark.parametrize("name", names(Who.SIGNED_IN, Who.ADMIN))
async def test_nobody_calls_it_without_a_session(site: Site, name: str) -> None:
    async with browser(site.gateway) as one:
        answer = await call(one, name)
        assert answer.status_code == 401
        assert answer.json()["error"]["reason"] == "API_KEY_MISSING"
        for secret in (ADMIN_SECRET, site.gateway.key.secret, TOKEN.get_secret_value()):
            cookie = f"weir_console={secret}"
            answer = await call(one, name, authorization=f"Bearer {secret}", cookie=cookie)
            assert answer.status_code == 401


@pytest.mark.parametrize("name", names(Who.ADMIN))
async def test_a_tenant_is_no_administrator(site: Site, thief: Browser, name: str) -> None:
    answer = await call(thief, name, "worker-0")
    assert (answer.status_code, answer.json()["error"]["reason"]) == (403, "PERMISSION_DENIED")
    async with browser(site.gateway, ADMIN_SECRET) as admin:
        assert (await call(admin, name, "worker-0")).status_code == 200


@pytest.mark.parametrize("name", [name for name in CONSOLE if name.startswith("POST")])
async def test_a_change_shows_more_than_the_cookie(site: Site, name: str) -> None:
    if CONSOLE[name].who is Who.ANYBODY:
        async with browser(site.gateway) as one:
            foreign = await call(one, name, origin="https://evil.example")
            assert foreign.status_code == 403
        return
    async with browser(site.gateway, ADMIN_SECRET) as one:
        assert (await call(one, name, "worker-0", shown=False)).status_code == 403
        foreign = await call(one, name, "worker-0", origin="https://evil.example")
        assert foreign.status_code == 403
        assert await one.alive()


@pytest.mark.parametrize("name", [name for name in CONSOLE if CONSOLE[name].object])
async def test_anothers_object_is_none(site: Site, thief: Browser, name: str) -> None:
    """A stolen id gets what a guessed one does, to the letter."""
    if CONSOLE[name].object == "tenant":
        stolen, guessed = "acme", "acmx"
    else:
        thing = await site.thing(CONSOLE[name].object)
        stolen, guessed = thing.id, thing.guess
    told = await call(thief, name, stolen)
    same = await call(thief, name, guessed)
    assert told.status_code == same.status_code == 404
    assert told.json() == same.json()
    for malformed in ("x" * 5_000, "..%2f..%2fetc%2fpasswd", "' OR 1=1 --", "%00", "\u0416"):
        refused = await call(thief, name, malformed)
        assert 400 <= refused.status_code < 500, (malformed, refused.text)
    async with browser(site.gateway, site.gateway.key.secret) as owner:
        # 501: the ratelimiter that is played here has no ledger.
        assert (await call(owner, name, stolen)).status_code in (200, 501)


@pytest.mark.parametrize(
    "name", [n for n in names(Who.SIGNED_IN) if n.startswith("GET") and "{" not in n]
)
async def test_a_page_holds_the_callers_own(site: Site, thief: Browser, name: str) -> None:
    request: Any = (await site.thing("request")).id
    if name.endswith("/live"):
        async with thief.http.stream("GET", "/console/api/live") as answer:
            lines = answer.aiter_lines()
            text = next(line for line in [await anext(lines) for _ in range(4)] if "data" in line)
    else:
        answer = await call(thief, name, "")
        assert answer.status_code == 200, answer.text
        text = answer.text
    for word in ("acme", request, site.gateway.key.id):
        assert f'"{word}' not in text
