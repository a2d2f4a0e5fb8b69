"""Pages pass axe's checks in both themes: names, roles, contrast."""

import pytest
from axe_playwright_python.async_playwright import Axe

from tests.console.test_pages import PAGES
from tests.console.visit import Visits

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.soak)])
async def test_pages_pass_axe(visits: Visits, theme: str) -> None:
    visit = await visits.admin(theme=theme)
    found = []
    for path in [*PAGES, "login"]:
        if path == "login":
            await visit.page.goto(f"{visit.url}/console/login")
            await visit.page.wait_for_selector("#credential-help:not(:empty)")
        else:
            await visit.open(path)
        results = await Axe().run(visit.page)
        found += [
            f"{path or 'overview'} {rule['id']}: {node['html'][:160]} {node['failureSummary']}"
            for rule in results.response["violations"]
            for node in rule["nodes"][:3]
        ]
    assert not found, "\n".join(found)
