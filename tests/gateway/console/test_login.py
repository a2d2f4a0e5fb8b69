"""Signing in: who may, what the cookie is, what a change must show, and what ends it."""

import asyncio
import copy
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.gateway.console.browser import ADMIN_SECRET, browser, told
from tests.gateway.harness import Gateway, eventually, running_gateway
from weir_cli.commands.tls import make_certificates
from weir_gateway.keys import generate_key

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("site")
    async with running_gateway(
        folder, admin_secret=ADMIN_SECRET, console={"login_failures": 1_000}
    ) as gateway:
        yield gateway


async def test_the_secret_opens_everything_although_the_directory_is_a_file(
    site: Gateway,
) -> None:
    async with browser(site, ADMIN_SECRET) as one:
        session = (await one.get("session")).json()
        assert (session["role"], session["method"], session["tenant"]) == ("admin", "secret", None)
        assert "workers" in session["pages"]
        assert session["audited"] is False
        assert (await one.get("directory")).json()["source"] == "file"
        assert (await one.get("audit")).json() == {
            "events": [],
            "next_page_token": "",
            "audited": False,
        }


async def test_a_key_opens_its_tenant(site: Gateway) -> None:
    async with browser(site, f" {site.key.secret}\n") as one:
        session = (await one.get("session")).json()
        assert (session["role"], session["tenant"], session["user"]) == ("tenant", "acme", "alice")
        assert session["key"] == site.key.id
        assert "workers" not in session["pages"]
        assert [t["id"] for t in (await one.get("tenants")).json()["tenants"]] == ["acme"]
        assert told(await one.get("workers")) == (403, "PERMISSION_DENIED")


async def test_nothing_else_opens_anything(site: Gateway) -> None:
    async with browser(site) as one:
        for credential in (
            ADMIN_SECRET[:-1],
            f"{ADMIN_SECRET}x",
            site.key.secret[:-1],
            generate_key("dev").secret,
            site.app.settings.cluster_token.get_secret_value(),  # type: ignore[union-attr]
            "\u0416\u0416",
        ):
            answer = await one.sign_in(credential)
            assert told(answer) == (401, "API_KEY_INVALID"), credential
            assert credential not in answer.text
        bodies: list[Any] = [{}, [], *({"credential": value} for value in ("", 7, "x" * 600))]
        for body in bodies:
            answer = await one.http.post("/console/api/login", json=body)
            assert told(answer) == (400, "INVALID_FIELD")
        plain = await one.http.post("/console/api/login", content=b"credential=x")
        assert told(plain) == (400, "INVALID_FIELD")
        large = await one.http.post("/console/api/login", json={"credential": "x" * 100_000})
        assert large.status_code == 413
        assert not one.http.cookies


async def test_every_route_of_the_api_asks_for_a_session(site: Gateway) -> None:
    async with browser(site) as one:
        for path in ("session", "overview", "live", "tenants", "queue", "requests/x", "workers"):
            assert told(await one.get(path)) == (401, "API_KEY_MISSING"), path
        # A key or the secret in a header is no session: a page of another site could not, and
        # what is called with keys is /v1.
        bearer = {"authorization": f"Bearer {ADMIN_SECRET}"}
        assert told(await one.get("overview", headers=bearer)) == (401, "API_KEY_MISSING")


async def test_the_cookie_is_for_this_site_and_no_script(site: Gateway) -> None:
    async with browser(site) as one:
        answer = await one.sign_in(ADMIN_SECRET)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("weir_console_")
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Path=/console" in cookie
        assert "Secure" not in cookie
        value = next(iter(one.http.cookies.values()))
        for path in ("session", "overview"):
            assert value not in (await one.get(path)).text


async def test_under_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    make_certificates(tmp_path / "tls")
    async with running_gateway(
        tmp_path, tls=tmp_path / "tls", admin_secret=ADMIN_SECRET
    ) as gateway:
        trust = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.pem")
        async with browser(gateway, ADMIN_SECRET, verify=trust) as one:
            ((name, _),) = one.http.cookies.items()
            assert name.startswith("__Secure-weir_console_")
            assert await one.alive()


async def test_a_change_shows_the_word_of_the_session_and_its_origin(site: Gateway) -> None:
    async with browser(site, ADMIN_SECRET) as one, browser(site, ADMIN_SECRET) as other:
        base = str(one.http.base_url).rstrip("/")
        refused = (403, "PERMISSION_DENIED")
        for headers in (
            {"x-weir-csrf": ""},
            {"x-weir-csrf": other.session["csrf"]},
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": base.replace("http://", "https://")},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
        ):
            assert told(await one.post("logout", **headers)) == refused, headers
        assert told(await one.sign_in(ADMIN_SECRET, origin="https://evil.example")) == refused
        assert await one.alive()
        answer = await one.post("logout", origin=base, **{"sec-fetch-site": "same-origin"})
        assert answer.status_code == 204
        assert not await one.alive()
        assert await other.alive()


async def test_after_signing_out_the_old_cookie_opens_nothing(site: Gateway) -> None:
    async with browser(site, ADMIN_SECRET) as one:
        old = dict(one.http.cookies)
        await one.post("logout")
        assert not one.http.cookies
        one.http.cookies.update(old)
        assert told(await one.get("overview")) == (401, "API_KEY_MISSING")


async def test_behind_a_proxy_the_public_url_is_the_own_origin(tmp_path: Path) -> None:
    public = {"public_url": "https://weir.example.com"}
    async with (
        running_gateway(tmp_path, admin_secret=ADMIN_SECRET, console=public) as gateway,
        browser(gateway) as one,
    ):
        answer = await one.sign_in(ADMIN_SECRET, origin="https://weir.example.com")
        assert answer.status_code == 200
        assert answer.headers["set-cookie"].startswith("__Secure-")
        assert "; Secure" in answer.headers["set-cookie"]


Change = Callable[[dict[str, Any]], None]


def _revoke(document: dict[str, Any]) -> None:
    document["tenants"][0]["keys"][0]["revoked"] = True


def _expire(document: dict[str, Any]) -> None:
    document["tenants"][0]["keys"][0]["expires"] = "2020-01-01T00:00:00Z"


def _suspend(document: dict[str, Any]) -> None:
    document["tenants"][0]["suspended"] = True


def _remove(document: dict[str, Any]) -> None:
    del document["tenants"][0]


@pytest.mark.parametrize("change", [_revoke, _expire, _suspend, _remove])
async def test_a_session_dies_with_its_key_and_for_good(site: Gateway, change: Change) -> None:
    before = (site.directory).read_text()
    async with browser(site, site.key.secret) as one, browser(site, ADMIN_SECRET) as admin:
        document = _copied(site)
        change(document)
        version = _version(site)
        await site.reload(document)
        await eventually(lambda: _version(site) > version)
        answer = await one.get("overview")
        assert told(answer) == (401, "API_KEY_MISSING")
        assert "has ended: the" in answer.json()["error"]["message"]
        assert await admin.alive()
        version = _version(site)
        site.directory.write_text(before)
        site.app.reload()
        await eventually(lambda: _version(site) > version)
        assert not await one.alive()


async def test_an_address_that_fails_often_waits(tmp_path: Path) -> None:
    async with (
        running_gateway(
            tmp_path, admin_secret=ADMIN_SECRET, console={"login_failures": 3}
        ) as gateway,
        browser(gateway) as one,
    ):
        for _ in range(3):
            assert (await one.sign_in("wrong")).status_code == 401
        answer = await one.sign_in(ADMIN_SECRET)
        assert told(answer) == (429, "RATE_LIMIT_EXCEEDED")
        assert 1 <= int(answer.headers["retry-after"]) <= 60


async def test_many_wrong_logins_at_once_are_no_way_around(tmp_path: Path) -> None:
    console = {"login_failures": 3}
    async with (
        running_gateway(tmp_path, admin_secret=ADMIN_SECRET, console=console) as gateway,
        browser(gateway) as one,
    ):
        answers = await asyncio.gather(*(one.sign_in("wrong" * 8) for _ in range(30)))
        assert sorted(answer.status_code for answer in answers) == [401] * 3 + [429] * 27


async def test_a_login_that_would_travel_in_plain_text_is_warned_of(tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with running_gateway(tmp_path, http_address="0.0.0.0:0") as gateway:
            console = gateway.app.console
            assert console is not None
            assert [line for line in lines if line["event"] == "console_in_plain_text"]
            lines.clear()
            console.warn_of_plain_text("127.0.0.1:8000")
            assert not lines


async def test_without_a_secret_tenants_alone_sign_in(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, browser(gateway) as one:
        assert (await one.get("login")).json()["methods"] == ["key"]
        answer = await one.sign_in(ADMIN_SECRET)
        assert told(answer) == (401, "API_KEY_INVALID")
        assert "WEIR_ADMIN_SECRET" in answer.json()["error"]["message"]
        assert (await one.sign_in(gateway.key.secret)).status_code == 200


async def test_drains_are_kept_in_the_trail_of_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/directory.sqlite"
    async with (
        running_gateway(tmp_path, admin_secret=ADMIN_SECRET, database_url=url) as gateway,
        browser(gateway, ADMIN_SECRET) as one,
    ):
        answer = await one.post("workers/worker-0/drain")
        assert answer.status_code == 200, answer.text
        page = (await one.get("audit", params={"page_size": 1})).json()
        (event,) = page["events"]
        kept = (event["actor"], event["action"], event["object"])
        assert kept == ("admin", "drain", "worker/worker-0")
        assert page["audited"] is True
        assert page["next_page_token"]
        assert (await one.post("workers/nobody/drain")).status_code == 404
        again = (await one.get("audit", params={"page_size": 1})).json()
        assert again["events"] == page["events"]


def _version(site: Gateway) -> int:
    assert site.app.control is not None
    return site.app.control.publisher.required.version


def _copied(site: Gateway) -> dict[str, Any]:
    return copy.deepcopy(site.document)
