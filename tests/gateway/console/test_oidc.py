"""Login by OpenID Connect against a real provider: code, PKCE, ID token, roles."""

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import pytest_asyncio
from joserfc.jwk import RSAKey

from tests.gateway.console.browser import ADMIN_SECRET, Browser, browser
from tests.gateway.console.oidc_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    Provider,
    running_provider,
)
from tests.gateway.harness import Gateway, eventually, running_gateway
from weir_core.errors.startup import StartupError
from weir_core.process.address import listen
from weir_gateway.console.oidc.checks import check_oidc
from weir_gateway.console.settings import ConsoleSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROLES = {"platform": "admin", "acme-people": "tenant:acme", "globex-people": "tenant:globex"}


def free_address() -> str:
    sock = listen("127.0.0.1:0", "a test")
    host, port = sock.getsockname()
    sock.close()
    return f"{host}:{port}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_provider() -> AsyncIterator[Provider]:
    async with running_provider() as provider:
        yield provider


@pytest_asyncio.fixture(loop_scope="module")
async def provider(shared_provider: Provider) -> Provider:
    shared_provider.claims = {"groups": ["platform"]}
    shared_provider.error, shared_provider.down = "", False
    return shared_provider


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    tmp_path_factory: pytest.TempPathFactory, shared_provider: Provider
) -> AsyncIterator[Gateway]:
    address = free_address()
    console = {
        "public_url": f"http://{address}",
        "oidc_issuer": shared_provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_roles": ROLES,
        "login_failures": 1_000,
    }
    async with running_gateway(
        tmp_path_factory.mktemp("site"),
        http_address=address,
        admin_secret=ADMIN_SECRET,
        console=console,
    ) as gateway:
        yield gateway


async def come_back(one: Browser, page: str = "") -> httpx2.Response:
    """Through the provider, up to the answer of our own callback."""
    query = {"page": page} if page else {}
    sent = await one.http.get("/console/api/oidc/start", params=query)
    assert sent.status_code == 302, sent.text
    async with httpx2.AsyncClient(timeout=20) as elsewhere:
        back = await elsewhere.get(sent.headers["location"])
    return await one.http.get(back.headers["location"])


def error_of(answer: httpx2.Response) -> str:
    assert answer.status_code == 302
    where = urlsplit(answer.headers["location"])
    assert where.path == "/console/login"
    return parse_qs(where.query)["error"][0]


async def test_an_administrator_signs_in_and_goes_on_where_he_was(
    site: Gateway, provider: Provider
) -> None:
    async with browser(site) as one:
        assert (await one.get("login")).json()["oidc"]["url"] == "/console/api/oidc/start"
        answer = await come_back(one, "/console/queue?tenant=acme")
        # Not a redirect: the new cookie is not sent after one that began at another site.
        assert answer.status_code == 200
        assert answer.headers["refresh"] == "0; url=/console/queue?tenant=acme"
        assert "SameSite=strict" in answer.headers["set-cookie"]
        session = (await one.get("session")).json()
        assert (session["role"], session["method"], session["name"]) == ("admin", "oidc", "olga")
        assert (await one.get("directory")).status_code == 200


async def test_a_tenant_sees_itself_and_ends_with_its_suspension(
    site: Gateway, provider: Provider
) -> None:
    provider.claims = {"groups": ["others", "acme-people"]}
    async with browser(site) as one:
        await come_back(one)
        session = (await one.get("session")).json()
        assert (session["role"], session["tenant"], session["key"]) == ("tenant", "acme", None)
        assert [t["id"] for t in (await one.get("tenants")).json()["tenants"]] == ["acme"]
        assert (await one.get("tenants/globex")).status_code == 404
        assert (await one.get("playground/models")).json()["generate"] == "key"
        document = copy.deepcopy(site.document)
        document["tenants"][0]["suspended"] = True
        await _publish(site, document)
        assert not await one.alive()
        await _publish(site, site.document)


async def _publish(site: Gateway, document: dict[str, Any]) -> None:
    assert site.app.control is not None
    publisher = site.app.control.publisher
    before = publisher.required.version
    await site.reload(document)
    await eventually(lambda: publisher.required.version > before)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"groups": ["strangers"]}, "has no value with a role"),
        ({"groups": None}, "has no value with a role"),
        ({"groups": {"platform": True}}, "has no value with a role"),
        ({"groups": ["acme-people", "globex-people"]}, "names several tenants"),
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another client"}, "aud"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"exp": 1_000_000}, "expired"),
        ({"azp": "another client"}, "another client"),
        ({"aud": [CLIENT_ID, "another"]}, "another client"),
    ],
)
async def test_a_token_that_is_not_for_this_login_opens_nothing(
    site: Gateway, provider: Provider, claims: dict[str, Any], why: str
) -> None:
    provider.claims = {"groups": ["platform"]} | claims
    async with browser(site) as one:
        assert why in error_of(await come_back(one))
        assert not await one.alive()


async def test_a_key_that_is_not_shown_is_not_believed_and_new_ones_are_read(
    site: Gateway, provider: Provider
) -> None:
    async with browser(site) as one:
        await come_back(one)
        assert await one.alive()
    provider.sign_with = new = RSAKey.generate_key(2048, auto_kid=True)
    async with browser(site) as one:
        assert "cannot be trusted" in error_of(await come_back(one))
        assert not await one.alive()
    provider.key = new
    _read_a_minute_ago(site)
    async with browser(site) as one:
        await come_back(one)
        assert await one.alive()


def _read_a_minute_ago(site: Gateway) -> None:
    """Keys are not read again at once, whoever asks for that with tokens of his own."""
    assert site.app.console is not None
    provider: Any = site.app.console._oidc._provider  # type: ignore[union-attr]
    provider._read_us -= 60_000_000


async def test_a_login_is_of_the_browser_that_began_it_and_once(
    site: Gateway, provider: Provider
) -> None:
    async with browser(site) as one, browser(site) as other:
        sent = await one.http.get("/console/api/oidc/start")
        async with httpx2.AsyncClient(timeout=20) as elsewhere:
            back = (await elsewhere.get(sent.headers["location"])).headers["location"]
        assert "another browser" in error_of(await other.http.get(back))
        assert not await other.alive()
        assert (await one.http.get(back)).status_code == 200
        assert "another browser" in error_of(await one.http.get(back))
        forged = back.replace("state=", "state=x")
        assert "another browser" in error_of(await one.http.get(forged))


async def test_what_the_provider_refuses_is_told(site: Gateway, provider: Provider) -> None:
    provider.error = "access_denied<script>"
    async with browser(site) as one:
        told = error_of(await come_back(one))
        assert "access_deniedscript" in told
        assert "<" not in told


async def test_pages_of_other_sites_are_not_gone_on_to(site: Gateway, provider: Provider) -> None:
    for page in ("https://evil.example", "//evil.example", "/console/\\..", '/console/";x', "/v1"):
        async with browser(site) as one:
            answer = await come_back(one, page)
            assert answer.headers["refresh"] == "0; url=/console/"


async def test_a_provider_that_is_away_is_told_of(tmp_path: Path, provider: Provider) -> None:
    provider.down = True
    address = free_address()
    console = {
        "public_url": f"http://{address}",
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_roles": ROLES,
    }
    async with (
        running_gateway(
            tmp_path, http_address=address, admin_secret=ADMIN_SECRET, console=console
        ) as gateway,
        browser(gateway) as one,
    ):
        told = error_of(await one.http.get("/console/api/oidc/start"))
        assert told == "the login provider: it answered 503"
        # The secret opens all the same.
        assert (await one.sign_in(ADMIN_SECRET)).status_code == 200


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"oidc_client_id": ""}, "console.oidc_client_id is empty"),
        ({"public_url": ""}, "console.public_url is empty"),
        ({"public_url": "http://weir.example.com"}, "console.public_url must be an https URL"),
        ({"oidc_issuer": "http://login.example.com"}, "console.oidc_issuer must be an https URL"),
        ({"oidc_roles": {}}, "would let nobody in"),
        ({"oidc_roles": {"a": "root"}}, "must be admin, or tenant:ID"),
        ({"oidc_roles": {"a": "tenant:"}}, "must be admin, or tenant:ID"),
    ],
)
async def test_half_of_the_settings_is_told_at_the_start(wrong: dict[str, Any], why: str) -> None:
    right: dict[str, Any] = {
        "public_url": "https://weir.example.com",
        "oidc_issuer": "https://login.example.com",
        "oidc_client_id": "weir",
        "oidc_roles": {"a": "admin"},
    }
    check_oidc(ConsoleSettings(**right))
    with pytest.raises(StartupError, match=why):
        check_oidc(ConsoleSettings(**(right | wrong)))
