"""A thousand live requests leave the console quick: rows out of sight are not in the page."""

import re

import pytest

from tests.console.site import living
from tests.console.visit import Visits
from tests.e2e.deployment import Deployment
from tests.e2e.wait import until

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.soak,
]

THOUSAND = 1_000
# A task so long is felt as a page that hangs, on a machine that has nothing else to do as here.
FELT_MS = 2_000


async def test_a_thousand_live_requests_leave_it_responsive(
    visits: Visits, site: Deployment
) -> None:
    visit = await visits.admin()
    page = visit.page
    async with living(site, "acme", THOUSAND // 2), living(site, "globex", THOUSAND // 2):
        await until(site.queued, lambda waiting: waiting > 900, "900 that wait", 90)
        waiting = await site.queued()
        await visit.open("queue")
        await page.get_by_text(re.compile(rf"^{waiting:,}|^9\d\d requests")).first.wait_for()
        assert await page.locator("main tbody tr.opens").count() < 100
        assert int(await page.locator("main table").first.get_attribute("aria-rowcount") or 0) > 900
        await page.get_by_role("combobox", name="Tenant").select_option("globex")
        await page.get_by_text(re.compile(r"^\d+ of 9\d\d requests")).wait_for()
        shown = await page.locator("main tbody tr.opens").all_inner_texts()
        assert shown
        assert all("globex" in row for row in shown)
        await page.get_by_role("button", name="Waited").click()
        await page.locator("main tbody tr.opens").first.focus()
        await page.keyboard.press("End")
        last = await page.evaluate("document.activeElement.getAttribute('aria-rowindex')")
        assert int(last) > 400
        for path in ("", "requests", "kv", "fairness", "tenants"):
            await visit.open(path)
        longest = await visit.longest_task()
        print(f"longest task of the pages with {waiting} waiting requests: {longest:.0f} ms")
        assert longest < FELT_MS
    await until(site.queued, lambda waiting: waiting == 0, "an empty queue", 90)
