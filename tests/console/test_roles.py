"""A tenant sees itself alone: on pages, behind every link, at every route."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.console.visit import Visit, Visits
from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]

OWN_PAGES = ["overview", "tenants", "queue", "requests", "playground", "slo"]
_REGISTERED = re.compile(r'gate\.(get|post)\(\s*"([^"]+)"')
_CALL = """async ([method, path, csrf]) => {
  const headers = method === "POST" ? { "x-weir-csrf": csrf } : {};
  const answer = await fetch(`/console/api${path}`, { method, headers });
  const reader = answer.body.getReader();
  const [bytes, decoder] = [[], new TextDecoder()];
  for (;;) {
    const { done, value } = await reader.read();
    if (value) bytes.push(decoder.decode(value));
    // Of a stream that goes on the first event is enough.
    if (done || path.startsWith("/live")) break;
  }
  reader.cancel();
  return [answer.status, bytes.join("")];
}"""


def _routes(root: Path) -> set[tuple[str, str]]:
    """Every route that the backend has, as its modules register them."""
    folder = root / "services/gateway/weir_gateway/console"
    source = "\n".join(file.read_text() for file in sorted(folder.glob("*.py")))
    return {(method.upper(), path) for method, path in _REGISTERED.findall(source)}


async def test_links_lead_a_tenant_to_its_own_pages_alone(visits: Visits, site: Deployment) -> None:
    visit = await visits.tenant("globex")
    offered = await visit.page.eval_on_selector_all(
        "nav a[data-page]", "links => links.map((link) => link.dataset.page)"
    )
    assert sorted(offered) == sorted(OWN_PAGES)
    seen: set[str] = set()
    waiting = ["/console/"]
    while waiting:
        path = waiting.pop()
        seen.add(path)
        await visit.open(path.removeprefix("/console/"))
        shown = f"{await visit.page.content()} {await visit.text()}"
        assert "acme" not in shown.lower(), path
        assert "initech" not in shown.lower(), path
        waiting += [link for link in await _links(visit) if link not in {*seen, *waiting}]
        # Requests look alike: a few of them tell of all.
        waiting = [link for link in waiting if "/requests/" not in link or _few(seen)]
    assert "/console/tenants/globex" in seen


def _few(seen: set[str]) -> bool:
    return sum("/requests/" in path for path in seen) < 2


async def _links(visit: Visit) -> list[str]:
    links: list[str] = await visit.page.eval_on_selector_all(
        "a[href^='/console/']", "links => links.map((link) => link.getAttribute('href'))"
    )
    return list(dict.fromkeys(links))


async def test_no_route_tells_a_tenant_of_another(
    visits: Visits, site: Deployment, repo_root: Path
) -> None:
    admin, visit = await visits.admin(), await visits.tenant("globex")
    visit.expected = ("40",)
    request_id = await _request_of(admin, "acme")
    worker = (await admin.page.evaluate(_CALL, ["GET", "/workers", ""]))[1]
    worker_id = re.findall(r'"id":"([^"]+)"', worker)[0]
    csrf = await _csrf(visit)
    routes = _routes(repo_root)
    assert len(routes) > 15
    for method, route in sorted(routes):
        if route in ("/login", "/logout"):
            continue
        path = route.replace("{tenant}", "acme").replace("{request}", request_id)
        path = path.replace("{worker}", worker_id)
        for query in ("", "?tenant=acme", "?search=acme"):
            status, body = await visit.page.evaluate(_CALL, [method, path + query, csrf])
            assert status >= 400 or "acme" not in body, (method, path + query, body[:400])
            assert "initech" not in body, (method, path)
            if "acme" in path or request_id in path:
                assert status == 404, (method, path, status)
            elif worker_id in path:
                assert status == 403, (method, path, status)
    # The worker that a tenant asked to drain goes on.
    state = (await admin.page.evaluate(_CALL, ["GET", "/workers", ""]))[1]
    assert "draining" not in state


async def test_pages_of_the_administrator_are_told_as_such(visits: Visits) -> None:
    visit = await visits.tenant("globex")
    for path in ("workers", "kv", "fairness", "directory", "configuration", "audit"):
        await visit.page.goto(f"{visit.url}/console/{path}")
        await visit.page.get_by_text("Not for this role").wait_for()


async def test_a_stranger_gets_the_login_and_then_the_page(
    visits: Visits, site: Deployment
) -> None:
    visit = await visits.stranger()
    visit.expected = ("401",)
    await visit.page.goto(f"{visit.url}/console/tenants/globex")
    await visit.page.fill("#credential", site.secret("globex"))
    await visit.page.press("#credential", "Enter")
    await visit.page.get_by_role("heading", name="globex").wait_for()


async def _request_of(admin: Visit, tenant: str) -> str:
    body = (await admin.page.evaluate(_CALL, ["GET", f"/requests?tenant={tenant}", ""]))[1]
    return str(re.findall(r'"request_id":"([^"]+)"', body)[0])


async def _csrf(visit: Visit) -> Any:
    return await visit.page.evaluate(
        "fetch('/console/api/session').then((r) => r.json()).then((session) => session.csrf)"
    )
