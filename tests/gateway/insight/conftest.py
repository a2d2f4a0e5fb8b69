from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.gateway.degradation.site import with_fallbacks
from tests.gateway.harness import Gateway, running_gateway
from tests.gateway.insight.asking import ADMIN_SECRET


def _plain(document: dict[str, Any]) -> None:
    """Fallbacks there are, and nobody's policy uses them."""
    with_fallbacks(document)
    del document["tenants"][0]["policy"]["degradations"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    settings: dict[str, Any] = {"admin_secret": ADMIN_SECRET}
    async with running_gateway(folder, workers=2, change=_plain, **settings) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(shared_gateway: Gateway) -> AsyncIterator[Gateway]:
    """A gateway with an administrator, back to its defaults for each test."""
    shared_gateway.reset()
    yield shared_gateway
    await shared_gateway.at_rest()
