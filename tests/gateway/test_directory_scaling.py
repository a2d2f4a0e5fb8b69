"""`scaling` of a pool: from the directory file to the scheduler's rules."""

import pytest

from weir_core.directory import DirectoryIndex
from weir_gateway.directory.file import DirectoryFileError, parse_document
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_scheduler.server.directory_rules import DirectoryRules

FILE = """
pools:
- name: default
  scaling: {min_workers: 2, target_use: 0.5, target_wait_ms: 250, down_window_ms: 60000}
models:
- name: tiny
  versions: [{version: "1", folder: /models/tiny}]
  max_context: 8192
"""


def test_what_the_file_says_reaches_the_scheduler_and_the_rest_is_as_everywhere() -> None:
    rules = DirectoryRules()
    rules.use(DirectoryIndex(build_snapshot(parse_document(FILE, "file"), 1)))
    own = rules.pool("tiny").scaling
    assert (own.min_workers, own.max_workers, own.target_kv_use) == (2, None, None)
    merged = own.over(ScalingRules(min_workers=1, max_workers=1, target_kv_use=0.6))
    assert (merged.min_workers, merged.max_workers) == (2, 2)
    assert (merged.target_use, merged.target_kv_use) == (0.5, 0.6)
    assert (merged.target_wait_us, merged.down_window_us) == (250_000, 60_000_000)


def test_a_lower_most_lowers_the_least_that_is_set_elsewhere() -> None:
    rules = DirectoryRules()
    text = FILE.replace("min_workers: 2", "max_workers: 3")
    rules.use(DirectoryIndex(build_snapshot(parse_document(text, "file"), 1)))
    merged = rules.pool("tiny").scaling.over(ScalingRules(min_workers=5, max_workers=9))
    assert (merged.min_workers, merged.max_workers) == (3, 3)


@pytest.mark.parametrize(
    ("scaling", "problem"),
    [
        ("{min_workers: 3, max_workers: 2}", "scaling: max_workers 2 is below min_workers 3"),
        ("{max_workers: 0}", "greater than or equal to 1"),
        ("{target_use: 1.5}", "less than or equal to 1"),
        ("{minimum: 1}", "minimum"),
    ],
)
def test_what_cannot_be_is_refused(scaling: str, problem: str) -> None:
    text = FILE.replace(
        "{min_workers: 2, target_use: 0.5, target_wait_ms: 250, down_window_ms: 60000}", scaling
    )
    with pytest.raises(DirectoryFileError, match=problem):
        parse_document(text, "file")
