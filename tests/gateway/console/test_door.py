"""Pages, files and headers."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from tests.gateway.console.browser import ADMIN_SECRET, Browser, browser
from tests.gateway.harness import Gateway, running_gateway
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.app import GatewayApp
from weir_gateway.console.static_files import FOLDER, StaticFiles

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("site")
    async with running_gateway(folder, admin_secret=ADMIN_SECRET) as gateway:
        yield gateway


async def test_every_page_is_the_index_and_nothing_else_is(site: Gateway) -> None:
    index = (FOLDER / "index.html").read_bytes()
    async with browser(site) as one:
        for path in ("", "queue", "tenants/acme", "requests/req_1.2", "tenants/a%2Fb"):
            answer = await one.http.get(f"/console/{path}")
            assert (answer.status_code, answer.content) == (200, index), path
        moved = await one.http.get("/console")
        assert (moved.status_code, moved.headers["location"]) == (308, "/console/")
        for path in ("api", "api/nothing", "static/nothing.js", "static/", "static/..%2fdoor.py"):
            answer = await one.http.get(f"/console/{path}")
            assert answer.status_code == 404, path
        long = await one.http.get(f"/console/static/{'a' * 300}.js")
        assert long.status_code == 404, "a name that no file system takes"
        assert (await one.http.post("/console/queue")).status_code == 405
        assert (await one.http.get("/consolex")).json()["error"]["code"] == "unknown_url"


async def test_strict_headers_are_on_everything(site: Gateway) -> None:
    async with browser(site) as one:
        for path in ("", "static/index.html", "static/nothing.js", "api/login", "api/session"):
            headers = (await one.http.get(f"/console/{path}")).headers
            policy = headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            stored = "no-cache" if path in ("", "static/index.html") else "no-store"
            assert headers["cache-control"] == stored, path
            assert "access-control-allow-origin" not in headers


async def test_other_sites_get_no_permission_from_cors(site: Gateway) -> None:
    foreign = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    async with browser(site) as one:
        answer = await one.http.options("/console/api/login", headers=foreign)
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers


async def test_a_file_that_is_known_is_not_sent_again(site: Gateway) -> None:
    async with browser(site) as one:
        first = await one.http.get("/console/static/app/main.js")
        assert first.headers["content-type"] == "text/javascript; charset=utf-8"
        known = {"if-none-match": first.headers["etag"]}
        again = await one.http.get("/console/static/app/main.js", headers=known)
        assert (again.status_code, again.content) == (304, b"")
        other = await one.http.get("/console/static/app/main.js", headers={"if-none-match": '"x"'})
        assert other.status_code == 200


async def test_a_file_that_changes_is_another(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("one")
    (tmp_path / "secret.py").write_text("not a type that is served")
    (tmp_path.parent / "outside.html").write_text("outside")
    (tmp_path / "link.html").symlink_to(tmp_path.parent / "outside.html")
    files = StaticFiles(tmp_path)
    first = files.find("index.html")
    assert first is not None
    assert files.find("index.html") is first
    (tmp_path / "index.html").write_text("two!")
    second = files.find("index.html")
    assert second is not None
    assert (second.content, second.etag != first.etag) == (b"two!", True)
    for name in ("secret.py", "link.html", "../outside.html", "", ".", "a\0.html", "x" * 5_000):
        assert files.find(name) is None, name[:20]


async def test_what_is_no_part_of_a_gateways_role_is_not_served(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, console={"enabled": False}) as gateway:
        assert gateway.app.console is None
        assert (await gateway.http.get("/console/")).status_code == 404


async def test_a_gateway_of_the_control_role_alone_serves_what_it_knows(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, admin_secret=ADMIN_SECRET) as gateway:
        # Nobody else looks for the active one of the schedulers.
        schedulers = f"127.0.0.1:1,{gateway.app.settings.scheduler_address}"
        settings = gateway.app.settings.model_copy(
            update={"role": "control", "scheduler_address": schedulers}
        )
        telemetry = Telemetry(tracing=Tracing("control"), registry=create_registry())
        app = GatewayApp(settings, telemetry)
        await app.start()
        try:
            async with httpx2.AsyncClient(base_url=f"http://{app.http_address}") as http:
                one = Browser(http)
                assert (await one.sign_in(ADMIN_SECRET)).status_code == 200
                told = (await one.get("overview")).json()
                assert told["queue"]["error"] is None
                assert told["workers"]["data"]["total"] == 1
                assert (await one.get("directory")).json()["counts"]["tenants"] == 2
                workers = (await one.get("workers")).json()["data"]
                assert [worker["id"] for worker in workers] == ["worker-0"]
                traffic = told["traffic"]
                assert "role control" in traffic["error"]["message"]
                refused = await one.get("requests")
                assert "role both" in refused.json()["error"]["message"]
                assert (await http.get("/metrics")).status_code == 200
        finally:
            await app.stop()
