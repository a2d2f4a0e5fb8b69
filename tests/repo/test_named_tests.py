"""A run of the whole suite tells which tests of docs/coverage.md did not run."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = """
| A1 | one | built | `tests/test_a.py::test_there`<br>`tests/test_a.py::TestIn` | [x](x.md) |
| A2 | two | built | `tests/test_b.py::test_skipped`<br>`tests/test_b.py::test_gone` | [x](x.md) |
"""
TESTS = {
    "test_a.py": """
def test_there():
    pass

class TestIn:
    def test_it(self):
        pass
""",
    "test_b.py": """
import pytest

def test_skipped():
    pytest.skip("not here")
""",
}


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    # Each run would import the plugins of all that is installed, for seconds.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    conftest = Path(__file__).resolve().parents[1] / "conftest.py"
    pytester.makeconftest(conftest.read_text(encoding="utf-8"))
    pytester.makeini("[pytest]\naddopts = -p xdist.plugin --import-mode=importlib")
    for folder in ("docs", "tests"):
        pytester.mkdir(folder)
    (pytester.path / "docs" / "coverage.md").write_text(PAGE)
    for name, text in TESTS.items():
        (pytester.path / "tests" / name).write_text(text)
    return pytester


@pytest.mark.parametrize("processes", [0, 2])
def test_a_named_test_that_did_not_run_fails_the_run(
    suite: pytest.Pytester, processes: int
) -> None:
    result = suite.runpytest_inprocess("-n", str(processes))
    result.assert_outcomes(passed=2, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "FAILED coverage.md names tests/test_b.py::test_gone: it did not run",
            "SKIPPED coverage.md names tests/test_b.py::test_skipped",
        ]
    )
    result.stdout.no_fnmatch_line("*names tests/test_a.py*")


@pytest.mark.parametrize("part", [["tests/test_a.py"], ["-k", "there"], ["-m", "not soak"]])
def test_a_run_of_a_part_does_not(suite: pytest.Pytester, part: list[str]) -> None:
    assert suite.runpytest_inprocess(*part).ret == pytest.ExitCode.OK
