"""One browser and one stack for all tests of the console."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.console.site import ask, console_site
from tests.console.visit import Visits
from tests.e2e.deployment import Deployment

CHROMIUM = "chromium"
PICTURES = "CONSOLE_PICTURES"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A stack with what every page tells of: answers, a refusal, use in the ledger."""
    async with console_site(tmp_path_factory.mktemp("console") / "state") as stack:
        for tenant, tokens in [("acme", 40), ("globex", 24), ("acme", 16)]:
            assert await ask(stack, tenant, "Tell of weirs. " * 4, tokens)
        assert not await ask(stack, "initech", "Too much. " * 40, 400)
        yield stack


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium."""
    path = shutil.which(CHROMIUM)
    if path is None:
        pytest.skip("no chromium on PATH; apt-get install chromium")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        await started.close()


@pytest.fixture(scope="package")
def pictures() -> Path | None:
    """Where pictures of pages are kept, if whoever wants to look names a folder."""
    folder = os.environ.get(PICTURES)
    if folder is None:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


@pytest.fixture(scope="package")
def cookies() -> dict[str, Any]:
    """Of those who have logged in."""
    return {}


@pytest_asyncio.fixture(loop_scope="session")
async def visits(
    site: Deployment, browser: Browser, cookies: dict[str, Any]
) -> AsyncIterator[Visits]:
    """Visits to the console, each of which must end without anything to complain of."""
    made = Visits(site, browser, cookies)
    yield made
    await made.close()
