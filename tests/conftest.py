"""What holds for every test: long runs only when asked for, no silent skip, a record of what ran.

`REQUIRE=model,chromium` names parts that are installed on this machine: a test that needs one of
them (a marker of that name, or `needs("part")`) and is skipped all the same counts as failed.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import workers
from tests.named_tests import NamedTests, whole_suite
from tests.ratelimiter.postgres import Postgres, running_postgres

# Read when torch is loaded. By default its threads spin while they wait for each other, which
# makes a busy machine ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# How long an example takes says more of what else runs than of the example.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One server for all modules of a process: to make one takes a second of a core."""
    with running_postgres() as server:
        yield server


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*parts): needs parts that may not be installed")
    page = config.rootpath / "docs" / "coverage.md"
    if not workers.is_one(config) and page.exists() and whole_suite(config):
        config.pluginmanager.register(NamedTests(page))
    # The order is that of `workers.begins`.
    config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return workers.ByUnit(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.markexpr:
        asked_for = [item for item in items if _only_when_asked_for(item)]
        items[:] = [item for item in items if not _only_when_asked_for(item)]
        if asked_for:
            config.hook.pytest_deselected(items=asked_for)
    if workers.is_one(config):
        items.sort(key=workers.begins)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    missing = _parts(item) & _required()
    if report.skipped and not hasattr(report, "wasxfail") and missing:
        report.outcome = "failed"
        report.longrepr = f"REQUIRE={','.join(sorted(missing))}, but skipped: {_reason(report)}"
    return report


def _only_when_asked_for(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("soak", "peers"))


def _required() -> set[str]:
    return {part.strip() for part in os.environ.get("REQUIRE", "").split(",") if part.strip()}


def _parts(item: pytest.Item) -> set[str]:
    needed = {str(part) for marker in item.iter_markers("needs") for part in marker.args}
    return needed | {marker.name for marker in item.iter_markers()}


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return str(report.longrepr)


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]
