"""A worker is drained and taken back from its page, after a question."""

import pytest

from tests.console.site import living
from tests.console.visit import Visits
from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]


async def test_a_worker_is_drained_after_a_question_and_taken_back(
    visits: Visits, site: Deployment
) -> None:
    visit = await visits.admin()
    page = visit.page
    # It has work, so that it does not leave between the two.
    async with living(site, "acme", 1):
        await visit.open("workers")
        await page.get_by_text("1 of 256").wait_for()
        await page.get_by_role("button", name="Drain").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        assert {view.state for view in await site.workers()} == {"ready"}
        await page.get_by_role("button", name="Drain").click()
        question = page.get_by_role("dialog")
        assert "ends the 1 request that it has" in await question.inner_text()
        await question.get_by_role("button", name="Drain", exact=True).click()
        await page.get_by_text("draining", exact=True).wait_for()
        assert {view.state for view in await site.workers()} == {"draining"}
        await page.get_by_role("button", name="Take back").click()
        await page.get_by_role("dialog").get_by_role("button", name="Take back").click()
        await page.get_by_text("ready", exact=True).wait_for()
        assert {view.state for view in await site.workers()} == {"ready"}
