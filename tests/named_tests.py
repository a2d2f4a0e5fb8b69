"""Fails a run of the whole suite in which a test that docs/coverage.md names did not run."""

from pathlib import Path

import pytest

from tests.coverage_page import not_run


class NamedTests:
    """A plug-in of the process that was started: it hears of every test, wherever it ran."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._outcomes: dict[str, str] = {}
        self._missing: list[str] = []
        self._skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._outcomes.setdefault(report.nodeid, report.outcome)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if not ended or session.shouldfail or session.shouldstop:
            return
        self._missing, self._skipped = not_run(self._page, self._outcomes)
        if self._missing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for node_id in self._missing:
            terminalreporter.write_line(f"FAILED {self._page.name} names {node_id}: it did not run")
        for node_id in self._skipped:
            terminalreporter.write_line(f"SKIPPED {self._page.name} names {node_id}")


def whole_suite(config: pytest.Config) -> bool:
    """Whether every test was asked for."""
    option = config.option
    narrowed = (option.markexpr, option.keyword, option.deselect, option.ignore)
    # `--lf` is not there without the cache plug-in.
    if any(narrowed) or getattr(option, "lf", False):
        return False
    given = {(config.invocation_params.dir / argument).resolve() for argument in config.args}
    return given in ({config.rootpath}, {config.rootpath / "tests"})
