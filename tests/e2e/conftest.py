from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.default_model import default_model_folder
from tests.e2e.counted import COUNTED, PRICED
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.quota import QUOTA_TENANTS
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


def _told_of_tools(folder: Path, home: Path) -> Path:
    """The same model; its template, which renders all else as before, tells of tools too."""
    linked = home / folder.name
    linked.mkdir()
    # Its 8-bit weights are kept where those of the original are.
    (folder / "int8").mkdir(exist_ok=True)
    for entry in folder.iterdir():
        if entry.name != "chat_template.jinja":
            (linked / entry.name).symlink_to(entry)
    source = (folder / "chat_template.jinja").read_text()
    tools = "{% if tools %}{{ tools | tojson }} as <tool_call>{json}</tool_call>{% endif %}"
    (linked / "chat_template.jinja").write_text(tools + source)
    return linked


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def smollm2(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A stack that serves the default model to two tenants."""
    folder = _told_of_tools(default_model_folder(), tmp_path_factory.mktemp("models"))
    tenants = {"acme": {"plan": "wide"}, "globex": {"plan": "wide"}}
    state = tmp_path_factory.mktemp("smollm2") / "state"
    async with deployed(state, folder, tenants=tenants, plans=WIDE) as stack:
        yield stack


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def counting(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """The model that computes nothing, in slow small steps, for a tenant of each test."""
    settings = {
        "WEIR_WORKER__NULL_STEP_US": "5000",
        "WEIR_WORKER__NUM_BLOCKS": "40",
        "WEIR_WORKER__MAX_STEP_TOKENS": "64",
        "WEIR_GATEWAY__JOB_LEASE_S": "2",
    }
    alone = {**COUNTED[0], "id": "one-at-a-time", "policy": {"max_running_requests": 1}}
    tenants = {
        "aborting": {"plan": "counted"},
        "reconciled": {"plan": "counted"},
        "offline": {"plan": "counted"},
        "answering": {"plan": "counted"},
        "preempted": {"plan": "counted"},
        "queueing": {"plan": "one-at-a-time"},
        **QUOTA_TENANTS,
    }
    async with deployed(
        tmp_path_factory.mktemp("counting") / "state",
        None,
        tenants=tenants,
        plans=[*COUNTED, alone],
        model=PRICED,
        settings=settings,
    ) as stack:
        yield stack
