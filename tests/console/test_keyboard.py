"""Everything can be done without a pointer."""

import pytest
from playwright.async_api import Page

from tests.console.visit import Visits
from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]

_FOCUSED = "document.activeElement.textContent.trim() || document.activeElement.ariaLabel"


async def test_the_first_stop_skips_the_navigation(visits: Visits) -> None:
    visit = await visits.admin()
    await visit.open("tenants")
    await visit.page.keyboard.press("Tab")
    assert await visit.page.evaluate(_FOCUSED) == "Skip to the content"
    await visit.page.keyboard.press("Enter")
    assert await visit.page.evaluate("document.activeElement.id") == "main"


async def test_every_stop_can_be_seen_and_none_is_a_trap(visits: Visits) -> None:
    visit = await visits.admin()
    await visit.open("tenants/acme")
    stops = []
    for _ in range(80):
        await visit.page.keyboard.press("Tab")
        if await visit.page.evaluate("document.activeElement === document.body"):
            break
        stops.append(await visit.page.evaluate(_FOCUSED))
        assert await visit.page.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
        ), stops[-1]
    assert any(stop.startswith("Overview") for stop in stops)
    assert "Log out admin" in stops
    assert "30 days" in stops


async def test_letters_lead_to_pages_and_a_question_mark_tells_them(visits: Visits) -> None:
    visit = await visits.admin()
    page = visit.page
    for letter, title in [("q", "Queue"), ("w", "Workers"), ("t", "Tenants"), ("o", "Overview")]:
        await page.keyboard.press("g")
        await page.keyboard.press(letter)
        await page.get_by_role("heading", name=title, exact=True).first.wait_for()
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    await dialog.wait_for()
    assert "Fairness" in await dialog.inner_text()
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="detached")


async def test_letters_in_a_field_are_text_and_can_be_turned_off(visits: Visits) -> None:
    visit = await visits.admin()
    page = visit.page
    await visit.open("tenants")
    await page.keyboard.press("/")
    await page.keyboard.type("globex?gq")
    assert await page.input_value("main input[type=search]") == "globex?gq"
    assert "search=globex" in page.url
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("?")
    await page.get_by_role("checkbox").uncheck()
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog").wait_for(state="detached")
    await page.keyboard.press("?")
    assert not await page.query_selector("dialog")


async def test_jump_finds_a_tenant(visits: Visits) -> None:
    visit = await visits.admin()
    await visit.open("slo")
    await visit.page.keyboard.press("Control+k")
    await visit.page.get_by_role("combobox").fill("glob")
    await visit.page.get_by_role("option", name="globex").wait_for()
    await visit.page.keyboard.press("Enter")
    await visit.page.get_by_role("heading", name="globex").wait_for()


async def test_rows_are_walked_and_opened_by_keys(visits: Visits) -> None:
    visit = await visits.admin()
    await visit.open("tenants")
    await visit.page.locator("main tbody tr.opens").first.focus()
    first = await visit.page.evaluate(_FOCUSED)
    await visit.page.keyboard.press("ArrowDown")
    assert await visit.page.evaluate(_FOCUSED) != first
    await visit.page.keyboard.press("End")
    await visit.page.keyboard.press("Enter")
    await visit.page.get_by_role("region", name="Limits").wait_for()


async def test_charts_and_blocks_are_read_by_keys(visits: Visits, site: Deployment) -> None:
    visit = await visits.admin()
    chart = visit.page.get_by_role("img", name="Tokens.")
    await visit.page.get_by_role("img", name="highest").first.wait_for()
    await chart.focus()
    await visit.page.keyboard.press("ArrowLeft")
    assert "output" in await _heard(visit.page)
    await visit.open("kv")
    await visit.page.get_by_role("img", name="480 KV blocks").focus()
    await visit.page.keyboard.press("End")
    assert "Block 479: " in await _heard(visit.page)


async def _heard(page: Page) -> str:
    heard = page.locator("#announcer:not(:empty)")
    await heard.wait_for(state="attached")
    return await heard.inner_text()
