"""The stack that all patients share, and the matrix of what the doctor said of each."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.doctor.site import Site, open_site

NOTHING = "nothing"
PROPERTY = "doctor"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The model that computes nothing, in steps of 50 ms that do not depend on the machine."""
    settings = {
        "WEIR_WORKER__NULL_STEP_US": "50000",
        "WEIR_WORKER__NUM_BLOCKS": "1024",
    }
    async with open_site(tmp_path_factory.mktemp("doctor"), None, settings) as site:
        yield site


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what was the matter, and what the doctor said first."""
    reports = [
        report
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, [])
        if report.when == "call"
    ]
    cases = [value for one in reports for name, value in one.user_properties if name == PROPERTY]
    if cases:
        terminalreporter.section("weir doctor: what was the matter, what it said first")
        for line in matrix_lines([tuple(case) for case in cases]):
            terminalreporter.write_line(line)


def matrix_lines(cases: list[tuple[str, ...]]) -> list[str]:
    """One line for each case, and the matrix of causes."""
    names = sorted({case[0] for case in cases})
    lines = []
    for name in names:
        told = Counter(case[2] for case in cases if case[0] == name)
        shown = ", ".join(f"{cause} {count}" for cause, count in told.most_common())
        margins = "; ".join(case[3] for case in cases if case[0] == name and len(case) > 3)
        lines.append(f"{name:40} {shown:24} {margins}")
    was = sorted({case[1] for case in cases})
    said = sorted({case[2] for case in cases} | set(was))
    counts = Counter((case[1], case[2]) for case in cases)
    width = max(len(cause) for cause in said)
    lines.append("")
    lines += [f"{'':{width}}  column {place}: {cause}" for place, cause in enumerate(said, 1)]
    lines.append(f"{'':{width}} " + "".join(f"{place:4}" for place in range(1, len(said) + 1)))
    for cause in was:
        row = "".join(f"{counts[cause, one] or '.':>4}" for one in said)
        lines.append(f"{cause:{width}} {row}")
    return lines
