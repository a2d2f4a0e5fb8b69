"""One contract for every queue policy under every way of taking turns.

Parametrised over the registries: whoever adds a plug-in is held to all of this.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.policies.counting import CountedInt, counted
from tests.scheduler.support import SECOND, entry
from weir_scheduler.policies.named import POLICIES, policy_named
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.rounds.named import ROUNDS
from weir_scheduler.queues.rounds.tenant_round import TenantRound
from weir_scheduler.rules.ordering_parameters import OrderingParameters
from weir_scheduler.rules.queue_rules import QueueRules
from weir_scheduler.workers.pool_prefixes import PoolPrefixes

MS = 1_000
ORDERING = OrderingParameters(promote_after_us=SECOND, promote_every=4, max_overtaken=20)
TENANTS = ("a", "b", "c")
FAMILIES = [tuple(bytes([family, piece]) for piece in range(3)) for family in range(3)]

every_policy = pytest.mark.parametrize("policy", POLICIES)
every_round = pytest.mark.parametrize("turns", ROUNDS)


def build(
    turns: str,
    policy: str,
    prefixes: PoolPrefixes | None = None,
    weight_of: Callable[[str], int] = lambda tenant: 1,
    **ordering: int,
) -> TenantRound:
    parameters = OrderingParameters(**ordering) if ordering else ORDERING
    rules = QueueRules(quantum_tokens=500, ordering=parameters)
    known = PoolPrefixes() if prefixes is None else prefixes
    return ROUNDS[turns](policy_named(policy, parameters), weight_of, rules, known)


ENTRIES: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        tenant_id=st.sampled_from(TENANTS),
        priority=st.integers(0, 3),
        prompt_tokens=st.integers(1, 300),
        predicted_output=st.integers(0, 300),
        arrival_us=st.integers(0, 3 * SECOND),
        prefix_hashes=st.sampled_from([(), *FAMILIES]),
    ),
    min_size=1,
    max_size=30,
)


def entries_of(drawn: list[dict[str, Any]]) -> list[QueueEntry]:
    return [entry(f"r{number}", number, **fields) for number, fields in enumerate(drawn)]


@every_policy
@settings(max_examples=30, deadline=None)
@given(drawn=ENTRIES)
def test_the_order_is_total(policy: str, drawn: list[dict[str, Any]]) -> None:
    """No two requests have the same key, and a key depends on nothing but its request."""
    entries = entries_of(drawn)
    keys = [policy_named(policy, ORDERING).key(e) for e in entries]
    assert len(set(keys)) == len(keys)
    assert keys == [policy_named(policy, ORDERING).key(e) for e in entries]
    assert all(key[-1] == e.sequence for key, e in zip(keys, entries, strict=True))


class Script:
    """Plays the same life to a round, and keeps the set of what ought to wait."""

    def __init__(self, turns: str, policy: str, entries: list[QueueEntry]) -> None:
        self.prefixes = PoolPrefixes()
        self.round = build(turns, policy, self.prefixes)
        self.coming = iter(entries)
        self.waiting: dict[str, QueueEntry] = {}
        self.blocked: set[str] = set()
        self.gone: list[str] = []
        self.now_us = 3 * SECOND

    def play(self, step: str, number: int) -> None:
        self.now_us += 100 * MS
        getattr(self, step)(number)
        assert len(self.round) == len(self.waiting)
        free = [e for e in self.waiting.values() if e.tenant_id not in self.blocked]
        assert self.round.ready() == bool(free)
        assert set(self.round.tenants()) == {e.tenant_id for e in self.waiting.values()}
        head = self.round.head(self.now_us)
        assert (head in free) if free else head is None

    def add(self, number: int) -> None:
        if (new := next(self.coming, None)) is not None:
            self.round.add(new)
            self.waiting[new.request_id] = new
            with pytest.raises(ValueError, match="waits already"):
                self.round.add(new)

    def remove(self, number: int) -> None:
        if self.waiting:
            request_id = sorted(self.waiting)[number % len(self.waiting)]
            self.round.remove(self.waiting[request_id])
            self._left(self.waiting[request_id])

    def dispatch(self, number: int) -> None:
        if (head := self.round.head(self.now_us)) is not None:
            self.round.dispatched(head, self.now_us)
            self.round.charge(head.tenant_id, head.prompt_tokens)
            self._left(head)

    def charge(self, number: int) -> None:
        self.round.charge(TENANTS[number % len(TENANTS)], number - 20)

    def toggle(self, number: int) -> None:
        tenant = TENANTS[number % len(TENANTS)]
        blocked = tenant in self.blocked
        (self.round.unblock if blocked else self.round.block)(tenant)
        (self.blocked.discard if blocked else self.blocked.add)(tenant)

    def cache(self, number: int) -> None:
        digest = FAMILIES[number % 3][number // 3 % 3]
        held = self.prefixes.leading([digest])
        (self.prefixes.remove if held else self.prefixes.add)(digest, "w")

    def _left(self, gone: QueueEntry) -> None:
        del self.waiting[gone.request_id]
        self.gone.append(gone.request_id)
        with pytest.raises(KeyError):
            self.round.remove(gone)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "dispatch", "remove", "charge", "toggle", "cache"]),
        st.integers(0, 60),
    ),
    max_size=60,
)


@every_round
@every_policy
@settings(max_examples=12, deadline=None)
@given(drawn=ENTRIES, steps=STEPS)
def test_nothing_is_lost_doubled_or_decided_by_chance(
    turns: str, policy: str, drawn: list[dict[str, Any]], steps: list[tuple[str, int]]
) -> None:
    scripts = [Script(turns, policy, entries_of(drawn)) for _ in range(2)]
    for step, number in steps:
        for script in scripts:
            script.play(step, number)
    for script in scripts:
        for tenant in list(script.blocked):
            script.toggle(TENANTS.index(tenant))
        for _ in range(len(script.waiting)):
            script.play("dispatch", 0)
        assert len(script.gone) == len(set(script.gone))
        assert (len(script.round), script.round.ready()) == (0, False)
    assert scripts[0].gone == scripts[1].gone


@every_round
@every_policy
def test_nothing_is_left_behind_on_any_way_out(turns: str, policy: str) -> None:
    """Whatever left by dispatch or removal, blocked or not, takes up no memory."""
    prefixes = PoolPrefixes()
    tenants = build(turns, policy, prefixes)
    for number in range(1_000):
        tenant = f"t{number % 20}"
        one = entry(f"r{number}", number, tenant_id=tenant, prefix_hashes=FAMILIES[number % 3])
        tenants.add(one)
        if number % 7 == 0:
            tenants.block(tenant)
        if number % 3 == 0:
            prefixes.add(FAMILIES[number % 3][number % 2], "w")
        if (head := tenants.head(number)) is not None and number % 2:
            tenants.dispatched(head, number)
        elif one.request_id in (tenants.queue_of(tenant) or ()):
            tenants.remove(one)
        if number % 7 == 0:
            tenants.unblock(tenant)
    for tenant in list(tenants.tenants()):
        queue = tenants.queue_of(tenant)
        for left in queue.entries() if queue is not None else ():
            tenants.remove(left)
    # Heaps keep up to 64 dead nodes, counters one number a tenant.
    assert sum(1 for _ in inside(tenants, set(), prefixes)) < 64 * 6 + 2 * 20 + 200


def inside(thing: Any, seen: set[int], leave_out: Any) -> Iterator[Any]:
    """Everything that an object keeps in containers, at any depth."""
    if id(thing) in seen or thing is leave_out:
        return
    seen.add(id(thing))
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield key
            yield from inside(value, seen, leave_out)
    elif isinstance(thing, (list, set, tuple)):
        for value in thing:
            yield value
            yield from inside(value, seen, leave_out)
    elif hasattr(thing, "__dict__"):
        for value in vars(thing).values():
            yield from inside(value, seen, leave_out)


@every_round
@every_policy
def test_a_requeued_request_takes_its_old_place(turns: str, policy: str) -> None:
    tenants = build(turns, policy)
    for number in range(6):
        tenants.add(entry(f"r{number}", number, tenant_id=TENANTS[number % 2]))
    first = tenants.head(10)
    assert first is not None
    tenants.dispatched(first, 10)
    tenants.charge(first.tenant_id, 100)
    tenants.charge(first.tenant_id, -100)
    tenants.add(first)
    queue = tenants.queue_of(first.tenant_id)
    assert queue is not None
    assert queue.head(10) == first
    if turns == "shared":
        assert tenants.head(10) == first


@every_round
@every_policy
def test_within_a_tenant_the_policy_decides_while_nobody_is_aged(turns: str, policy: str) -> None:
    """Strictness: with no prefix cached and no bound reached, the order is that of the keys."""
    fields = [{"priority": n % 4, "prompt_tokens": 1 + n * 37 % 50, "arrival_us": n * 13 % 20}
              for n in range(20)]  # fmt: skip
    entries = entries_of(fields)
    tenants = build(turns, policy)
    for one in entries:
        tenants.add(one)
    order = []
    while (head := tenants.head(20)) is not None:
        tenants.dispatched(head, 20)
        order.append(head)
    assert order == sorted(entries, key=policy_named(policy, ORDERING).key)


@every_round
@every_policy
@pytest.mark.parametrize("rival", ["own", "other"])
def test_nobody_starves(turns: str, policy: str, rival: str) -> None:
    """One request against an endless stream that the policy, the caches and its tenant favour."""
    prefixes = PoolPrefixes()
    for piece in FAMILIES[0]:
        prefixes.add(piece, "w")
    tenants = build(turns, policy, prefixes)
    victim = entry("victim", 0, tenant_id="a", prompt_tokens=2_000, predicted_output=2_000)
    tenants.add(victim)
    numbers, now_us = count(1), 0
    dispatches = 0
    while dispatches < 2_000:
        for _ in range(3):
            number = next(numbers)
            tenants.add(
                entry(
                    f"r{number}",
                    number,
                    tenant_id="a" if rival == "own" else f"rival{number % 3}",
                    priority=9,
                    prompt_tokens=1,
                    predicted_output=1,
                    arrival_us=now_us,
                    prefix_hashes=FAMILIES[0],
                )
            )
        now_us += 50 * MS
        head = tenants.head(now_us)
        assert head is not None
        if head == victim:
            break
        tenants.dispatched(head, now_us)
        tenants.charge(head.tenant_id, 4)
        dispatches += 1
    # 20 overtakings at most in one queue, and a quantum of 500 tokens of each of three rivals.
    assert dispatches <= 20 + (3 * 500 // 4 if turns == "locality" else 0)


@every_round
@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"fifo"}))
@pytest.mark.parametrize("most", [0, 1, 5])
def test_no_more_than_the_configured_number_overtake(turns: str, policy: str, most: int) -> None:
    tenants = build(turns, policy, max_overtaken=most, promote_after_us=10**12)
    tenants.add(entry("old", 0, prompt_tokens=5_000))
    order = []
    for number in range(1, 20):
        tenants.add(entry(f"new{number}", number, priority=9, prompt_tokens=1))
        head = tenants.head(number)
        assert head is not None
        tenants.dispatched(head, number)
        order.append(head.request_id)
    assert order.index("old") == most


def filled(turns: str, policy: str, size: int) -> TenantRound:
    """`size` requests of a tenth as many tenants, with keys and weights that count."""
    prefixes = PoolPrefixes()
    tenants = build(turns, policy, prefixes, weight_of=lambda tenant: CountedInt(1 + len(tenant)))
    for family in FAMILIES[:2]:
        prefixes.add(family[0], "w")
    for number in range(size):
        tenants.add(
            entry(
                f"r{number}",
                number,
                tenant_id=f"t{number * 7919 % max(1, size // 10)}",
                priority=CountedInt(number % 5),
                arrival_us=CountedInt(number * 31 % size),
                prompt_tokens=CountedInt(1 + number * 17 % 97),
                prefix_hashes=FAMILIES[number % 3],
            )
        )
    return tenants


def work(turns: str, policy: str, size: int, decisions: int = 100) -> float:
    """Comparisons and lines of one decision: head, dispatch, charge, and one arrival."""
    tenants = filled(turns, policy, size)
    with counted() as tally:
        for number in range(decisions):
            head = tenants.head(size + number)
            assert head is not None
            tenants.dispatched(head, size + number)
            tenants.charge(head.tenant_id, head.prompt_tokens)
            tenants.charge(head.tenant_id, 5)
            arrival = size + number
            tenants.add(entry(f"n{arrival}", arrival, tenant_id=head.tenant_id,
                              arrival_us=CountedInt(arrival)))  # fmt: skip
    return tally.total / decisions


@every_round
@every_policy
def test_a_decision_grows_at_most_with_the_logarithm(turns: str, policy: str) -> None:
    """From 50 to 3,200 requests the logarithm doubles; a scan would be 64 times as long."""
    assert work(turns, policy, 3_200) <= 2.2 * work(turns, policy, 50, decisions=40)
