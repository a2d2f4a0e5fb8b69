from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.default_model import default_model_folder
from tests.e2e.deployment import Deployment, deployed
from tests.tiny_llama import write_tiny_llama

WIDE = [
    {
        "id": "wide",
        "limits": [
            {"resource": "concurrency", "limit": 100},
            {"resource": "requests", "rate": "1000/s"},
            {"resource": "tokens", "rate": "10M/min"},
        ],
    }
]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random Llama."""
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def smollm2(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A stack that serves the default model to two tenants."""
    folder = default_model_folder()
    tenants = {"acme": {"plan": "wide"}, "globex": {"plan": "wide"}}
    state = tmp_path_factory.mktemp("smollm2") / "state"
    async with deployed(state, folder, tenants=tenants, plans=WIDE) as stack:
        yield stack
