"""What holds for every test: long runs only when asked for, no silent skip, a record of what ran.

`REQUIRE=model,chromium` names parts that are installed on this machine: a test that needs one of
them (a marker of that name, or `needs("part")`) and is skipped all the same counts as failed.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

# Read when torch is loaded. By default its threads spin while they wait for each other, which
# makes a busy machine ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

RAN = pytest.StashKey[dict[str, str]]()
WHOLE_SUITE = pytest.StashKey[bool]()

_LAST = "tests/repo/test_coverage_page.py"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*parts): needs parts that may not be installed")
    config.stash[RAN] = {}
    config.stash[WHOLE_SUITE] = False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.option.markexpr
    if not chosen:
        soak = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        if soak:
            config.hook.pytest_deselected(items=soak)
    config.stash[WHOLE_SUITE] = not chosen and not config.option.keyword and _asked_for_all(config)
    # It compares a page with what ran before it.
    items.sort(key=lambda item: item.nodeid.startswith(_LAST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    missing = _parts(item) & _required()
    if report.skipped and not hasattr(report, "wasxfail") and missing:
        report.outcome = "failed"
        report.longrepr = f"REQUIRE={','.join(sorted(missing))}, but skipped: {_reason(report)}"
    if report.when == "call" or report.outcome != "passed":
        item.config.stash[RAN].setdefault(item.nodeid, report.outcome)
    return report


def _asked_for_all(config: pytest.Config) -> bool:
    if getattr(config.option, "lf", False) or config.option.deselect or config.option.ignore:
        return False
    given = {(config.invocation_params.dir / argument).resolve() for argument in config.args}
    return given in ({config.rootpath}, {config.rootpath / "tests"})


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
