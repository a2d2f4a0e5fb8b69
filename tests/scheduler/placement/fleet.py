"""Views of workers, as hypothesis draws them."""

from typing import Any

from hypothesis import strategies as st

from tests.scheduler.support import ROOMY, entry, worker_info
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.prefix_index import PrefixIndex
from weir_scheduler.workers.worker_view import WorkerView

CHAIN = tuple(number.to_bytes(32, "big") for number in range(1, 9))
"""Prefix hashes of every drawn request."""


def view(worker_id: str = "w0", cached: int = 0, **fields: Any) -> WorkerView:
    """A worker that holds so many pieces of `CHAIN`; idle unless said otherwise."""
    prefixes = PrefixIndex(100, worker_id)
    prefixes.add(CHAIN[:cached])
    defaults: dict[str, Any] = {
        "info": worker_info(worker_id),
        "rules": ROOMY,
        "takes_work": True,
        "requests": 0,
        "places": 0,
        "cost": 0,
        "free_kv_blocks": 100,
        "static_batch": None,
        "prefixes": prefixes,
    }
    return WorkerView(**(defaults | fields))


@st.composite
def views(draw: st.DrawFn, most: int = 6) -> list[WorkerView]:
    """A fleet in any state."""
    return [
        view(
            f"w{number}",
            draw(st.integers(0, len(CHAIN))),
            takes_work=draw(st.booleans()),
            requests=(requests := draw(st.integers(0, 6))),
            places=requests,
            cost=draw(st.integers(0, 1_000)),
            free_kv_blocks=draw(st.integers(0, 100)),
            prefill_left=draw(st.integers(0, 2_000)),
            output_left=draw(st.integers(0, 500)),
            recent=draw(st.floats(0, 10_000)),
            rules=WorkerRules(4, 1_500, 512, 4),
        )
        for number in range(draw(st.integers(1, most)))
    ]


@st.composite
def entries(draw: st.DrawFn) -> QueueEntry:
    """A request, some of whose workers may have failed it."""
    prompt = draw(st.integers(1, 900))
    return entry(
        "r",
        prompt_tokens=prompt,
        estimated_cost=prompt + 5,
        prefix_hashes=CHAIN[: draw(st.integers(0, len(CHAIN)))],
        excluded=frozenset(draw(st.sets(st.sampled_from(["w0", "w1", "w2"])))),
    )
