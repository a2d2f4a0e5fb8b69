"""Sums on pages are those of the ledger, to the token."""

import pytest
from playwright.async_api import expect

from tests.console.site import ask
from tests.console.visit import Visit, Visits
from tests.e2e.bill import Row, bill
from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="session")]

WITHIN_MS = 60_000
_AT_REST = """async (tenant) => {
  const answer = await (await fetch(`/console/api/tenants/${tenant}`)).json();
  const { state, checks } = answer.reconciliation.data;
  return state === "agree" && checks.every((check) => check.held === 0);
}"""


async def test_pages_and_ledger_agree_to_the_token(visits: Visits, site: Deployment) -> None:
    for tenant, tokens in [("acme", 7), ("acme", 31), ("globex", 13)]:
        assert await ask(site, tenant, f"Count {tokens} tokens to the token.", tokens)
    visit = await visits.admin()
    for tenant in ("acme", "globex"):
        await visit.open("tenants")
        # The ledger is written within moments of a request's end; the page reads it every 10 s.
        row = visit.page.locator("main tbody tr", has=visit.page.get_by_text(tenant, exact=True))
        mine = await _settled(site, visit, tenant)
        total = _sum(mine, "tokens")
        # Also those that were cancelled while they waited, and cost nothing.
        requests = f"{sum(row.kind == 'charge' for row in mine):,}"
        await expect(row.get_by_role("cell").nth(9)).to_have_text(total, timeout=WITHIN_MS)
        await expect(row.get_by_role("cell").nth(6)).to_have_text(requests)
        await visit.open(f"tenants/{tenant}?by=key")
        await expect(visit.page.locator(".stat", has_text="Tokens today")).to_contain_text(total)
        sums = visit.page.locator("tr[data-total=usage] td")
        want = ["Total", requests, *(_sum(mine, name) for name in ("prompt", "cached"))]
        await expect(sums).to_have_text([*want, _sum(mine, "completion"), total, _money(mine)])
        account = visit.page.get_by_role("region", name="Account against ledger")
        await expect(account.get_by_text("agree").first).to_be_visible()
        assert "differ" not in (await account.inner_text()).replace("Difference", "")


async def _settled(site: Deployment, visit: Visit, tenant: str) -> list[Row]:
    """The rows of a tenant once nothing of it is held any more."""
    await visit.until(_AT_REST, tenant)
    return [row for row in await bill(site) if row.tenant == tenant]


def _sum(rows: list[Row], name: str) -> str:
    return f"{sum(getattr(row, name) for row in rows):,}"


def _money(rows: list[Row]) -> str:
    units, fraction = f"{sum(row.nanos for row in rows) / 10**9:.9f}".split(".")
    return f"{int(units):,}.{fraction.rstrip('0').ljust(2, '0')}"
