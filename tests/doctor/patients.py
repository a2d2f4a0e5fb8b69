"""What is done to a deployment that is well, and what the doctor must say first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.doctor.clients import Clients, beginning_with, fresh
from tests.doctor.site import isolation, parameters

Edit = Callable[[dict[str, Any]], None]


_USUAL_BOUNDS = parameters()


@dataclass(frozen=True)
class Patient:
    """One deployment over two phases.

    Attributes:
        name: of the case.
        well, ill: the load of each.
        asked: arguments of `weir doctor`.
        first: the cause that it names first; empty: it finds nothing.
        also: causes that it must name too, within the first three.
        before, between: edits of the directory.
        ratelimiter_slow: it stands still most of the time in the second phase.
        soak: the cause is shown by another case too, in another way.
    """

    name: str
    well: Sequence[Clients]
    ill: Sequence[Clients]
    asked: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    before: Edit = _USUAL_BOUNDS
    between: Edit | None = None
    ratelimiter_slow: bool = False
    soak: bool = False

    @property
    def judged(self) -> tuple[str, ...]:
        """The tenant that is asked about; empty: all."""
        return self.asked[1:2] if self.asked[:1] == ("tenant",) else ()


_SHORT = fresh(100)
_FOUR_PLACES = parameters(max_batch_size=4)
_KNOWN = beginning_with(1_500)
_UNKNOWN = fresh(1_530)
_USUAL = [Clients(4, _SHORT)]
# Whoever waits for answers sends nothing while reservations stand still, and meets none.
_STEADY = Clients(1, _SHORT, every_s=0.1)

HEALTHY = (
    Patient("healthy", _USUAL, _USUAL),
    Patient("healthy, less load", _USUAL, [Clients(2, _SHORT)], soak=True),
    Patient("healthy, more load", [Clients(2, _SHORT)], [Clients(8, _SHORT)], soak=True),
)
THROUGHPUT = (
    Patient(
        "long prompts",
        [Clients(8, _SHORT)],
        [Clients(8, fresh(1_500))],
        first=("long_prompts",),
    ),
    Patient(
        "beginnings of prompts changed",
        [Clients(8, _KNOWN)],
        [Clients(8, _UNKNOWN)],
        first=("prefix_hits_lost",),
    ),
    Patient(
        "more beginnings than the cache holds",
        [Clients(4, beginning_with(2_000, of=3, seed=1))],
        [Clients(4, beginning_with(2_000, of=24, seed=2))],
        first=("prefix_hits_lost",),
        soak=True,
    ),
    Patient(
        "KV blocks short",
        [Clients(4, fresh(1_500), output=20)],
        [Clients(24, fresh(1_500), output=20)],
        first=("kv_pressure",),
    ),
    Patient(
        "max_batch_size lowered",
        [Clients(8, _SHORT)],
        [Clients(8, _SHORT)],
        first=("tight_limits",),
        between=parameters(max_batch_size=2),
        soak=True,
    ),
    Patient(
        "max_step_tokens lowered",
        [Clients(6, fresh(1_000))],
        [Clients(6, fresh(1_000))],
        first=("tight_limits",),
        between=parameters(max_step_tokens=128),
        soak=True,
    ),
)
TTFT = (
    Patient(
        "queue grew",
        [Clients(3, _SHORT)],
        [Clients(16, _SHORT)],
        asked=("ttft",),
        first=("queue_grew",),
        before=_FOUR_PLACES,
    ),
    Patient(
        "max_concurrent_requests lowered",
        [Clients(8, _SHORT)],
        [Clients(8, _SHORT)],
        asked=("ttft",),
        first=("tight_limits",),
        between=parameters(max_concurrent_requests=2),
        soak=True,
    ),
    Patient(
        "tenant at its cap",
        [Clients(4, _SHORT, tenant="capped")],
        [Clients(16, _SHORT, tenant="capped")],
        asked=("ttft",),
        first=("tenant_cap",),
    ),
    Patient(
        "reservations slow",
        [_STEADY],
        [_STEADY],
        asked=("ttft",),
        first=("slow_intake",),
        ratelimiter_slow=True,
    ),
    Patient(
        "batches wait to fill",
        # Now and then: a window is of an idle worker.
        [Clients(1, _SHORT, output=2, every_s=0.45, offline=True)],
        [Clients(1, _SHORT, output=2, every_s=0.45, offline=True)],
        asked=("ttft",),
        first=("batch_window",),
        before=parameters(offline_batch_wait_ms=0),
        between=parameters(offline_batch_wait_ms=100),
        soak=True,
    ),
    Patient(
        "hits lost",
        [Clients(6, _KNOWN)],
        [Clients(6, _UNKNOWN)],
        asked=("ttft",),
        first=("prefix_hits_lost",),
        soak=True,
    ),
    Patient(
        "prompts longer",
        [Clients(6, _SHORT)],
        [Clients(6, fresh(1_500))],
        asked=("ttft",),
        first=("long_prompts",),
        soak=True,
    ),
)
_ALICE = Clients(3, _SHORT, tenant="acme")
_ALICES = Clients(6, _SHORT, tenant="acme")
_BOB = Clients(2, _SHORT, tenant="globex")
_BOBS_FLOOD = Clients(16, _SHORT, output=30, tenant="globex")
_BOBS_MORE = Clients(12, _SHORT, output=12, tenant="globex")
_ASK = ("tenant", "acme", "--against", "globex")
TENANT = (
    Patient(
        "one queue for all",
        [_ALICES, _BOB],
        [_ALICES, _BOBS_MORE],
        asked=_ASK,
        first=("needs_weights",),
        before=isolation("shared", max_batch_size=8),
    ),
    Patient(
        "a queue each, all places taken",
        [_ALICE, _BOB],
        [_ALICE, _BOBS_FLOOD],
        asked=_ASK,
        first=("needs_caps",),
        before=isolation("weighted", max_batch_size=8),
    ),
    Patient(
        "long prompts in the same steps",
        [Clients(6, fresh(700), output=4, tenant="acme"), _BOB],
        [
            # All of them have KV blocks at once: nobody waits in the queue.
            Clients(6, fresh(700), output=4, tenant="acme"),
            Clients(6, fresh(1_500), output=2, tenant="globex"),
        ],
        asked=_ASK,
        first=("needs_dedicated_pool",),
        before=isolation("weighted"),
    ),
    Patient(
        "slow by its own cap",
        [Clients(4, _SHORT, tenant="capped"), _BOB],
        [Clients(16, _SHORT, tenant="capped"), Clients(6, _SHORT, tenant="globex")],
        asked=("tenant", "capped", "--against", "globex"),
        first=("own_limit",),
        before=isolation("weighted"),
    ),
    Patient(
        "slow by its own prompts",
        [_ALICES, _BOB],
        [Clients(6, fresh(1_500), tenant="acme"), _BOB],
        asked=_ASK,
        first=("own_requests",),
        before=isolation("weighted"),
    ),
    Patient(
        "nobody slows it",
        [_ALICES, _BOB],
        [_ALICES, Clients(6, _SHORT, tenant="globex")],
        asked=_ASK,
        before=isolation("weighted"),
    ),
)
OTHERS = (
    Patient(
        "refused by its own limit",
        [Clients(4, _SHORT, tenant="limited")],
        [Clients(12, _SHORT, tenant="limited")],
        first=("limit_refuses",),
    ),
    Patient(
        "two: bound lowered, prompts longer",
        [Clients(8, _SHORT, output=4)],
        # Fewer places and more tokens weigh about as much: either may come first, both are told.
        [Clients(8, fresh(600), output=4)],
        first=("tight_limits", "long_prompts"),
        also=("tight_limits", "long_prompts"),
        between=parameters(max_batch_size=2),
    ),
    Patient(
        "two: more requests, hits lost",
        [Clients(3, _KNOWN)],
        # Forty times the tokens of each, and four times as many at once.
        [Clients(12, _UNKNOWN)],
        asked=("ttft",),
        first=("prefix_hits_lost",),
        also=("prefix_hits_lost", "queue_grew"),
        before=_FOUR_PLACES,
        soak=True,
    ),
)
OF_ALL = (*HEALTHY, *THROUGHPUT, *TTFT, *OTHERS)
EVERY = (*OF_ALL, *TENANT)


def cases(patients: Sequence[Patient]) -> list[ParameterSet]:
    """Parameters of a test."""
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.soak] if one.soak else [])
        for one in patients
    ]
