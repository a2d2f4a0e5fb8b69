"""Every page shows what the stack has, in both themes and on a phone, and nothing goes wrong."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.site import ask, living
from tests.console.visit import Visit, Visits
from tests.e2e.deployment import Deployment
from weir_core.telemetry.redaction import MASK

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]

# What each page must tell of the real stack: texts that are only there if data came.
PAGES = {
    "": ["Output tokens", "Busiest tenants", "tenant:initech/tpm"],
    "queue": ["Nobody waits", "default / null"],
    "requests": ["acme", "globex", "request too large"],
    "workers": ["worker-1", "ready", "Drain"],
    "kv": ["Blocks in order", "480"],
    "fairness": ["Jain index", "Service against weight"],
    "tenants": ["acme", "globex", "initech", "Tokens today"],
    "tenants/acme": ["tenant:acme/day", "binds", "Account against ledger", "agree"],
    "slo": ["time to first token", "kept"],
    "directory": ["Plan team", "50,000,000 tokens per day", "null"],
    "configuration": ["Gateway", "environment", MASK],
    "audit": ["No trail is kept"],
    "playground": ["Parameters", "View as code"],
}
LOOKS = [
    ("light", False),
    ("dark", True),
    pytest.param("dark", False, marks=pytest.mark.soak),
    pytest.param("light", True, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("theme", "phone"), LOOKS)
async def test_every_page_shows_what_there_is(
    site: Deployment, visits: Visits, pictures: Path | None, theme: str, phone: bool
) -> None:
    # Told for a minute.
    assert not await ask(site, "initech", "Too much. " * 40, 400)
    visit = await visits.admin(theme=theme, phone=phone)
    for path, texts in PAGES.items():
        await _read(visit, path, texts)
        assert await visit.fits(), f"{path} hangs over the edge"
        name = f"{path.replace('/', '-') or 'overview'}-{theme}{'-phone' if phone else ''}.png"
        if pictures:
            await visit.page.screenshot(path=pictures / name, full_page=phone)


async def _read(visit: Visit, path: str, texts: list[str]) -> None:
    await visit.open(path)
    for text in texts:
        await visit.page.get_by_text(text).first.wait_for(state="attached")


async def test_a_request_is_explained(
    visits: Visits, pictures: Path | None, site: Deployment
) -> None:
    visit = await visits.admin()
    await visit.open("requests?outcome=ok&tenant=acme")
    await visit.page.click("main tbody tr.opens td:nth-child(5)")
    await visit.page.wait_for_selector(".waterfall .phase")
    text = await visit.text()
    for phase in ["intake", "reserve", "queue", "prefill", "decode", "settle"]:
        assert phase in text
    assert "first token" in text
    assert "settled" in text
    if pictures:
        await visit.page.screenshot(path=pictures / "request-light.png")


async def test_of_a_request_that_runs_the_time_so_far_is_told(
    visits: Visits, site: Deployment
) -> None:
    visit = await visits.admin()
    async with living(site, "globex", 1):
        await visit.open("requests?tenant=globex&state=running")
        await visit.page.click("main tbody tr.opens td:nth-child(5)")
        for name in ("So far", "In the queue"):
            figure = visit.page.locator(f".stat:has(dt:text-is('{name}')) dd.figure")
            await expect(figure).to_have_text(re.compile(r"\d"), timeout=30_000)


async def test_a_refusal_is_explained(visits: Visits) -> None:
    visit = await visits.admin()
    await visit.open("requests?state=refused")
    await visit.page.click("main tbody tr.opens td:nth-child(5)")
    await visit.page.get_by_role("region", name="Refusal").wait_for()
    assert "tenant:initech/tpm" in await visit.text()


async def test_values_of_a_pool_are_told_without_the_name_of_their_field(visits: Visits) -> None:
    visit = await visits.admin()
    await visit.open("directory")
    for value in ("weighted", "fifo"):
        await visit.page.get_by_text(value, exact=True).first.wait_for(state="attached")


async def test_a_reload_and_a_way_back_keep_the_place(visits: Visits) -> None:
    visit = await visits.admin()
    await visit.open("tenants/acme?by=key")
    await visit.page.reload()
    await visit.page.wait_for_selector("main .stats")
    assert await visit.page.title() == "acme · Tenants · Tokenweir"
    split = visit.page.get_by_role("group", name="Split by")
    assert await split.get_by_role("button", pressed=True).inner_text() == "Key"
    await visit.page.click("nav a[data-page=queue]")
    await visit.page.get_by_role("heading", name="Queue", exact=True).wait_for()
    await visit.page.go_back()
    await visit.page.get_by_role("heading", name="acme").wait_for()


async def test_the_theme_is_chosen_and_kept(visits: Visits) -> None:
    visit = await visits.admin(theme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await visit.page.evaluate(ground)
    await visit.page.get_by_role("button", name="Go to the dark theme").click()
    dark = await visit.page.evaluate(ground)
    assert dark != light
    await visit.page.reload()
    assert await visit.page.evaluate(ground) == dark


async def test_an_address_that_leads_nowhere_says_so(visits: Visits) -> None:
    visit = await visits.admin()
    await visit.page.goto(f"{visit.url}/console/nowhere/at/all")
    await visit.page.get_by_text("No such page").wait_for()


async def test_a_request_that_nobody_knows_is_told(visits: Visits) -> None:
    visit = await visits.admin()
    visit.expected = ("404",)
    await visit.page.goto(f"{visit.url}/console/requests/req_unknown")
    await visit.page.get_by_role("alert").wait_for()


async def test_a_wrong_secret_is_refused_in_words(visits: Visits) -> None:
    visit = await visits.stranger()
    visit.expected = ("401",)
    await visit.page.goto(f"{visit.url}/console/tenants/acme")
    await visit.page.fill("#credential", "not-the-secret")
    await visit.page.press("#credential", "Enter")
    await visit.page.get_by_role("alert").wait_for()
