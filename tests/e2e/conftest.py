"""Stacks that several files share: of the package, as one that is idle computes all the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.default_model import default_model_folder
from tests.e2e.counted import COUNTED, PRICED
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.lesser import LESSER
from tests.e2e.measured import MEASURED
from tests.e2e.narrow import NARROW, NARROW_TENANTS
from tests.e2e.quota import QUOTA_TENANTS
from tests.otlp_sink import OtlpSink, otlp_sink
from weir_core.model_folder import models_home
from weir_worker.engine.config import NULL_MODEL
from weir_worker.engine.null_folder import ensure_null_model

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


# A short request fits once, and not again on that day.
ONCE = {
    "id": "once",
    "limits": [{"id": "tokens", "resource": "tokens", "rate": "1/day", "burst": 100}],
}


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


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def smollm2(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A stack that serves the default model to two tenants."""
    folder = _told_of_tools(default_model_folder(), tmp_path_factory.mktemp("models"))
    tenants = {"acme": {"plan": "wide"}, "globex": {"plan": "wide"}}
    state = tmp_path_factory.mktemp("smollm2") / "state"
    async with deployed(state, folder, tenants=tenants, plans=WIDE) as stack:
        yield stack


@pytest_asyncio.fixture(scope="package", loop_scope="session")
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
        "seen": {"plan": "one-at-a-time"},
        "unseen": {"plan": "counted"},
        "explained": {"plan": "one-at-a-time"},
        "measured": MEASURED,
        **NARROW_TENANTS,
        **QUOTA_TENANTS,
    }
    async with deployed(
        tmp_path_factory.mktemp("counting") / "state",
        None,
        tenants=tenants,
        plans=[*COUNTED, NARROW, alone],
        model=PRICED,
        settings=settings,
    ) as stack:
        yield stack


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Two workers of the model that computes nothing, in slow steps."""
    async with deployed(
        tmp_path_factory.mktemp("pair") / "state",
        None,
        tenants={
            "acme": {"plan": "wide"},
            "globex": {"plan": "wide"},
            "moved": {"plan": "counted"},
            "told": {"plan": "wide"},
        },
        plans=[*COUNTED, *WIDE],
        model=PRICED,
        workers=2,
        settings={"WEIR_WORKER__NULL_STEP_US": "20000"},
    ) as stack:
        yield stack


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def spans() -> AsyncIterator[OtlpSink]:
    """What the services of `two_versions` say of traces."""
    async with otlp_sink() as sink:
        yield sink


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def two_versions(
    tmp_path_factory: pytest.TempPathFactory, spans: OtlpSink
) -> AsyncIterator[Deployment]:
    """Two versions of one model, by equal weights and sticky by session."""
    folder = str(ensure_null_model(models_home() / NULL_MODEL))
    versions = [{"version": name, "folder": folder, "weight": 1} for name in ("1", "2")]
    async with deployed(
        tmp_path_factory.mktemp("versions") / "state",
        None,
        tenants={
            "counted": {"plan": "counted"},
            "lesser": {"plan": "lesser"},
            "traced": {"plan": "wide"},
            "refused": {"plan": "once"},
        },
        plans=[*COUNTED, *WIDE, LESSER, ONCE],
        model={"versions": versions, "sticky": "session"},
        otlp=spans.endpoint,
        settings={"OTEL_BSP_SCHEDULE_DELAY": "100"},
    ) as stack:
        yield stack
