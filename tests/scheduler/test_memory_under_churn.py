"""Workers and prefixes that come and go leave nothing behind."""

import gc
import tracemalloc

import pytest

from tests.scheduler.support import SECOND, Bench, FixedRules
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers import pool_prefixes
from weir_scheduler.workers.worker_report import WorkerLoad, WorkerReport

LIVES, BLOCKS, REQUESTS = 6, 200, 5


def _live(bench: Bench, number: int) -> None:
    """A worker comes, caches prefixes that nobody had before, answers, and dies."""
    worker_id = f"w{number}"
    bench.worker(worker_id)
    names = [f"{number}-{block}".encode().rjust(32) for block in range(BLOCKS)]
    for begin in range(0, BLOCKS, 100):
        bench.scheduler.worker_report(
            worker_id,
            WorkerReport(
                load=WorkerLoad(free_kv_blocks=100),
                prefix_blocks_added=tuple(names[begin : begin + 100]),
                prefix_blocks_removed=tuple(names[: begin // 2]),
            ),
        )
    for nth in range(REQUESTS):
        bench.enqueue(
            f"r{number}-{nth}",
            f"tenant-{nth}",
            session_id=f"session-{nth}",
            prefix_hashes=tuple(names[:5]),
        )
        dispatch = bench.out.dispatches[-1]
        bench.start(dispatch, output=1)
        bench.first_token(dispatch)
        bench.end(dispatch)
    bench.scheduler.worker_disconnected(worker_id)
    del bench.running[worker_id], bench.blocks[worker_id]
    bench.out.__init__()  # type: ignore[misc]
    bench.seen.__init__()  # type: ignore[misc]


def _memory_after(bench: Bench, lives: range) -> int:
    for number in lives:
        _live(bench, number)
    bench.advance(30 * SECOND, step_us=SECOND)
    bench.scheduler.scaling_signals(["m"])
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_case_17_memory_does_not_grow_while_workers_and_prefixes_churn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The ring of blocks that became findable lately, smaller than what comes.
    monkeypatch.setattr(pool_prefixes, "_REMEMBERED", 500)
    # Lost after 5 s, forgotten 10 s later.
    bench = Bench(FixedRules(workers=WorkerRules(8, 65_536, 512, 8)), lost_kept_us=10 * SECOND)
    tracemalloc.start()
    try:
        warm = _memory_after(bench, range(LIVES))
        for batch in range(1, 4):
            later = _memory_after(bench, range(batch * LIVES, (batch + 1) * LIVES))
    finally:
        tracemalloc.stop()
    assert bench.scheduler.workers() == []
    # The names of one worker's prefixes alone take 13 KB: 18 more lives have left less than
    # three of them behind.
    assert later - warm < 40_000
