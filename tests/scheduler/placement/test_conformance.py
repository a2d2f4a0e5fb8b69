"""Every plug-in of placement against the same contract; see `placement/contracts.py`."""

import math
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weir_scheduler.placement
from tests.scheduler.placement.fleet import CHAIN, entries, view, views
from tests.scheduler.support import entry
from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.placement.contracts import Filter, Picker, Scorer
from weir_scheduler.placement.placement import Blocked, Placed, Stranded, TooLarge
from weir_scheduler.placement.placer import Placer
from weir_scheduler.placement.plugins import FILTERS, PICKERS, ROOM, SCORERS
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.worker_view import WorkerView

ALL_FILTERS = {**FILTERS, **ROOM}
CONTEXTS = st.builds(
    PlacementContext,
    session_worker=st.sampled_from([None, "w0", "w1"]),
    mean_recent=st.floats(0, 10_000),
)
QUICK = settings(max_examples=25, deadline=None)


@pytest.mark.parametrize("one", ALL_FILTERS.values(), ids=ALL_FILTERS)
@given(request=entries(), fleet=views(), context=CONTEXTS)
@QUICK
def test_a_filter_answers_with_a_reason_and_the_same_twice(
    one: Filter, request: QueueEntry, fleet: list[WorkerView], context: PlacementContext
) -> None:
    for worker in fleet:
        why = one.refuses(request, worker, context)
        assert why is None or isinstance(why, WaitReason)
        assert one.refuses(request, worker, context) is why


@pytest.mark.parametrize("one", SCORERS.values(), ids=SCORERS)
@given(
    request=entries(),
    fleet=views(),
    context=CONTEXTS,
    cached=st.integers(0, 900),
    home=st.booleans(),
)
@QUICK
def test_a_scorer_prices_in_tokens(
    one: Scorer,
    request: QueueEntry,
    fleet: list[WorkerView],
    context: PlacementContext,
    cached: int,
    home: bool,
) -> None:
    for worker in fleet:
        candidate = Candidate(worker, min(cached, request.prompt_tokens - 1), home)
        cost = one.cost(request, candidate, context)
        assert math.isfinite(cost)
        assert cost >= 0
        assert one.cost(request, candidate, context) == cost
        better = Candidate(worker, request.prompt_tokens - 1, home)
        assert one.cost(request, better, context) <= cost, "more of the prompt costs no more"


@pytest.mark.parametrize("one", PICKERS.values(), ids=PICKERS)
@given(costs=st.lists(st.integers(0, 3), min_size=1, max_size=6), seed=st.integers(0, 99))
@QUICK
def test_a_picker_picks_one_of_the_cheapest(one: Picker, costs: list[int], seed: int) -> None:
    candidates = [Candidate(view(f"w{n}"), 0, False) for n in range(len(costs))]
    picked = one.pick(candidates, [float(cost) for cost in costs], random.Random(seed))
    assert costs[candidates.index(picked)] == min(costs)


@pytest.mark.parametrize("one", PICKERS.values(), ids=PICKERS)
def test_a_picker_draws_equals_by_lot(one: Picker) -> None:
    candidates = [Candidate(view(f"w{n}"), 0, False) for n in range(4)]
    rng = random.Random(1)
    drawn = Counter(one.pick(candidates, [1.0] * 4, rng).view.info.worker_id for _ in range(400))
    assert len(drawn) == 4
    assert min(drawn.values()) > 60


@given(request=entries(), fleet=views(), context=CONTEXTS)
@QUICK
def test_a_request_goes_only_where_every_filter_lets_it(
    request: QueueEntry, fleet: list[WorkerView], context: PlacementContext
) -> None:
    result = Placer(rng=random.Random(1)).place(request, fleet, context)
    allowed = [
        worker
        for worker in fleet
        if all(one.refuses(request, worker, context) is None for one in ALL_FILTERS.values())
    ]
    if isinstance(result, Placed):
        assert result.candidate.view in allowed
    elif isinstance(result, Blocked | Stranded | TooLarge):
        assert not allowed
    else:
        assert result.worker_id not in {worker.info.worker_id for worker in allowed}


@pytest.mark.parametrize("kind", ["filters", "scorers", "pickers"])
def test_every_plugin_has_a_readme_and_is_listed(kind: str) -> None:
    root = Path(weir_scheduler.placement.__file__).parent
    folders = {path.name for path in (root / kind).iterdir() if (path / "__init__.py").exists()}
    listed = {"filters": ALL_FILTERS, "scorers": SCORERS, "pickers": PICKERS}[kind]
    assert folders == set(listed)
    overview = (root / "README.md").read_text()
    for name in folders:
        assert (root / kind / name / f"{name}.py").exists()
        assert f"`{name}`" in (root / kind / name / "README.md").read_text().splitlines()[0]
        assert f"{kind}/{name}/README.md" in overview


def test_a_prefix_is_worth_what_it_saves_and_no_more() -> None:
    holder, idle = view("w0", cached=8, prefill_left=400), view("w1")
    request = entry("r", prompt_tokens=600, prefix_hashes=CHAIN)
    result = Placer().place(request, [holder, idle])
    assert isinstance(result, Placed)
    assert result.candidate.view is holder
    busier = view("w0", cached=8, prefill_left=600)
    result = Placer().place(request, [busier, idle])
    assert isinstance(result, Placed)
    assert result.candidate.view is idle
