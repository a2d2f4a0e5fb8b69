"""The policy of tests/conftest.py, on a suite of its own."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest

@pytest.mark.model
def test_model():
    pytest.skip("no weights here")

@pytest.mark.needs("chromium")
def test_chromium():
    pytest.skip("no browser here")

@pytest.mark.soak
def test_long():
    raise AssertionError("only when asked for")

@pytest.mark.model
@pytest.mark.xfail
def test_known():
    raise AssertionError
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    # Each run would import the plugins of all that is installed, for seconds.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    conftest = Path(__file__).resolve().parents[1] / "conftest.py"
    pytester.makeconftest(conftest.read_text(encoding="utf-8"))
    pytester.makeini(
        "[pytest]\nmarkers =\n  soak: long\n  model: weights\naddopts = -ra -p xdist.plugin"
    )
    pytester.makepyfile(SUITE)
    return pytester


def test_a_skip_is_printed_with_its_reason(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUIRE", raising=False)
    result = suite.runpytest_inprocess()
    result.assert_outcomes(skipped=2, xfailed=1, deselected=1)
    result.stdout.fnmatch_lines(["SKIPPED*no weights here", "SKIPPED*no browser here"])


def test_a_required_part_may_not_be_skipped(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUIRE", "model, something")
    result = suite.runpytest_inprocess()
    result.assert_outcomes(failed=1, skipped=1, xfailed=1, deselected=1)
    result.stdout.fnmatch_lines(["*REQUIRE=model, but skipped: *no weights here*"])


def test_long_runs_are_asked_for_by_marker(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess("-m", "soak").assert_outcomes(failed=1, deselected=3)
