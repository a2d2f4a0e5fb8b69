"""A small fleet under the production scheduler, with accounts of its own.

Replicas prefill in chunks and then make a token a step for everything that runs; they tell the
scheduler what they did some steps apart, and their reports take some steps to arrive. Beside
that stands an exact account, kept from what the replicas compute and from nothing that the
scheduler counts.
"""

import hashlib
import random
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.scheduler.support import FixedRules, RecordingOutbox, new_request, worker_info
from weir_core.clock import ManualClock
from weir_core.errors import Reason
from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.placement.placer import Placer
from weir_scheduler.rules.rules import TenantRules, WorkerRules
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import (
    AttemptEnd,
    AttemptProgress,
    AttemptUsage,
    WorkerLoad,
    WorkerReport,
)

STEP_US = 20_000
GATEWAY = "gw"
BLOCK = 16
PROMPT_WEIGHT, OUTPUT_WEIGHT = 1, 2


@dataclass(frozen=True)
class Load:
    """What one tenant sends.

    Attributes:
        weight: of the tenant.
        prompt: bounds of the length, tokens.
        output: likewise.
        families: prefixes that its prompts begin with; 0 for none.
        prefix_blocks: pieces of `PREFIX_GRANULARITY` tokens in such a prefix.
        cap: requests that run at once; 0 for any number.
        pauses: the share of steps after which it stops or begins to send.
    """

    weight: int = 1
    prompt: tuple[int, int] = (1, 200)
    output: tuple[int, int] = (1, 40)
    families: int = 0
    prefix_blocks: int = 2
    cap: int = 0
    pauses: float = 0.0


@dataclass(frozen=True)
class Conditions:
    """The fleet and what goes wrong in it; rates are chances a step."""

    replicas: int = 1
    slots: int = 4
    batch_tokens: int = 4_000
    kv_blocks: int = 400
    step_tokens: int = 64
    report_every: int = 1
    report_delay: int = 0
    cancel: float = 0.0
    fail: float = 0.0
    lose: float = 0.0
    cache_pieces: int = 200


@dataclass
class Sequence:
    """One attempt at a replica."""

    key: AttemptKey
    tenant: str
    prompt: int
    output: int
    cached: int
    hashes: tuple[bytes, ...]
    computed: int = 0
    produced: int = 0

    @property
    def usage(self) -> AttemptUsage:
        return AttemptUsage(self.cached + self.computed, self.cached, self.produced)

    @property
    def service(self) -> int:
        return PROMPT_WEIGHT * self.computed + OUTPUT_WEIGHT * self.produced


@dataclass
class Replica:
    """What really runs there."""

    worker_id: str
    running: dict[AttemptKey, Sequence] = field(default_factory=dict)
    ended: list[AttemptEnd] = field(default_factory=list)
    cache: dict[bytes, None] = field(default_factory=dict)
    added: list[bytes] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)
    on_its_way: deque[tuple[int, WorkerReport]] = field(default_factory=deque)


class FleetModel:
    """Runs tenants' loads through a scheduler, step by step."""

    def __init__(
        self,
        loads: Mapping[str, Load],
        conditions: Conditions,
        rules: FixedRules | None = None,
        seed: int = 0,
    ) -> None:
        self.loads, self.conditions = dict(loads), conditions
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.rules = rules or FixedRules()
        self.rules.tenants = {n: TenantRules(x.weight, x.cap, 0) for n, x in loads.items()}
        self.rules.queue_timeout_us = 10**12
        self.rules.max_queued_requests = 10**6
        slots, tokens = conditions.slots, conditions.batch_tokens
        self.rules.workers = WorkerRules(slots, tokens, conditions.step_tokens, slots)
        self.out = RecordingOutbox()
        self.scheduler = Scheduler(
            clock=self.clock,
            rules=self.rules,
            outbox=self.out,
            bounds=Bounds(
                prompt_weight=PROMPT_WEIGHT,
                output_weight=OUTPUT_WEIGHT,
                max_attempts=1_000,
                no_worker_us=10**12,
            ),
            placer=Placer(rng=random.Random(seed)),
        )
        self.step_number = 0
        self.service: Counter[str] = Counter()
        self.tokens = 0
        self.hit_tokens = 0
        self.finished = 0
        self.order: list[str] = []
        self._count = 0
        self._outputs: dict[str, tuple[int, tuple[bytes, ...], int]] = {}
        self._waiting: dict[str, set[str]] = {name: set() for name in loads}
        self._silent: set[str] = set()
        self._seen = 0
        self.replicas = {}
        for number in range(conditions.replicas):
            replica = Replica(f"w{number}")
            self.replicas[replica.worker_id] = replica
            self._register(replica)

    @property
    def keep(self) -> int:
        """Requests kept waiting by a tenant that sends: more than one pass can dispatch."""
        return self.conditions.replicas * self.conditions.slots + 2

    def step(self) -> None:
        """One step of every replica, and everything that arrives meanwhile."""
        self.step_number += 1
        self.clock.advance_us(STEP_US)
        self._pause_or_begin()
        self._send()
        self._pump()
        self._disturb()
        for replica in self.replicas.values():
            self._compute(replica)
            self._report(replica)
        self._pump()

    def backlogged(self) -> set[str]:
        """Tenants with a waiting request that no limit of their own holds back."""
        found: set[str] = set()
        for lane in self.scheduler._state.lanes.values():
            found.update(t for _, t, _ in lane.queues() if not lane.is_blocked(t))
        return found

    def _register(self, replica: Replica) -> None:
        info = worker_info(
            replica.worker_id,
            total_kv_blocks=self.conditions.kv_blocks,
            block_size=BLOCK,
            max_context_tokens=100_000,
        )
        self.scheduler.register_worker(info)
        self.scheduler.worker_report(replica.worker_id, self._state_of(replica))

    def _pause_or_begin(self) -> None:
        for name, load in self.loads.items():
            if self.rng.random() < load.pauses:
                (self._silent.discard if name in self._silent else self._silent.add)(name)

    def _send(self) -> None:
        for name, load in self.loads.items():
            while name not in self._silent and len(self._waiting[name]) < self.keep:
                self._send_one(name, load)

    def _send_one(self, name: str, load: Load) -> None:
        self._count += 1
        request_id = f"{name}{self._count}"
        prompt, output = self.rng.randint(*load.prompt), self.rng.randint(*load.output)
        hashes: tuple[bytes, ...] = ()
        if load.families:
            family = self.rng.randrange(load.families)
            hashes = chain(name, family, load.prefix_blocks)
            prompt += len(hashes) * PREFIX_GRANULARITY
        self._outputs[request_id] = (output, hashes, prompt)
        self._waiting[name].add(request_id)
        request = new_request(
            request_id,
            name,
            prompt_tokens=prompt,
            max_new_tokens=output if self.rng.random() < 0.5 else load.output[1],
            prefix_hashes=hashes,
        )
        self.scheduler.enqueue(GATEWAY, request)

    def _pump(self) -> None:
        self.scheduler.pump()
        for dispatch in self.out.dispatches[self._seen :]:
            self._start(dispatch)
        self._seen = len(self.out.dispatches)
        for worker_id, key in self.out.aborts:
            self._abort(self.replicas[worker_id], key)
        self.out.aborts.clear()

    def _start(self, dispatch: Dispatch) -> None:
        request_id = dispatch.key.request_id
        self._waiting[dispatch.tenant_id].discard(request_id)
        self.order.append(request_id)
        output, hashes, prompt = self._outputs[request_id]
        replica = self.replicas[dispatch.worker.worker_id]
        hit = 0
        while hit < len(hashes) and hashes[hit] in replica.cache:
            hit += 1
        cached = min(hit * PREFIX_GRANULARITY, prompt - 1)
        self.hit_tokens += cached
        replica.running[dispatch.key] = Sequence(
            dispatch.key, dispatch.tenant_id, prompt, output, cached, hashes
        )

    def _abort(self, replica: Replica, key: AttemptKey) -> None:
        sequence = replica.running.pop(key, None)
        if sequence is not None:
            replica.ended.append(AttemptEnd(key, sequence.usage))

    def _disturb(self) -> None:
        for replica in self.replicas.values():
            for key, sequence in list(replica.running.items()):
                if self.rng.random() < self.conditions.cancel:
                    self.scheduler.withdraw(GATEWAY, key.request_id)
                elif not sequence.produced and self.rng.random() < self.conditions.fail:
                    self._waiting[sequence.tenant].add(key.request_id)
                    self.scheduler.attempt_failed(
                        GATEWAY, key, Reason.STALE_ATTEMPT, worker_fault=False
                    )
            if self.rng.random() < self.conditions.lose:
                self._lose(replica)
        for waiting in self._waiting.values():
            for request_id in sorted(waiting):
                if self.rng.random() < self.conditions.cancel / 4:
                    waiting.discard(request_id)
                    self.scheduler.withdraw(GATEWAY, request_id)
        self._pump()

    def _lose(self, replica: Replica) -> None:
        """It dies with all that runs and comes back empty; what was not streamed is nobody's."""
        for key, sequence in replica.running.items():
            if not sequence.produced:
                self.service[sequence.tenant] -= sequence.service
                if self.scheduler._state.requests.get(key.request_id) is not None:
                    self._waiting[sequence.tenant].add(key.request_id)
        replica.running.clear()
        for record in (replica.ended, replica.cache, replica.added, replica.removed):
            record.clear()
        replica.on_its_way.clear()
        dead = replace(self._state_of(replica), load=WorkerLoad(step_age_us=60_000_000))
        self.scheduler.worker_report(replica.worker_id, dead)
        self._register(replica)

    def _compute(self, replica: Replica) -> None:
        budget = self.conditions.step_tokens
        for key, sequence in list(replica.running.items()):
            left = sequence.prompt - sequence.cached - sequence.computed
            if left:
                chunk = min(left, budget)
                budget -= chunk
                sequence.computed += chunk
                self._served(sequence, PROMPT_WEIGHT * chunk)
                if chunk == left:
                    self._cache(replica, sequence.hashes)
                continue
            sequence.produced += 1
            self.tokens += 1
            self._served(sequence, OUTPUT_WEIGHT)
            if sequence.produced == 1:
                self.scheduler.first_token(GATEWAY, key)
            if sequence.produced == sequence.output:
                self._finish(replica, sequence)

    def _served(self, sequence: Sequence, service: int) -> None:
        self.service[sequence.tenant] += service
        self.tokens += service if service != OUTPUT_WEIGHT else 0

    def _finish(self, replica: Replica, sequence: Sequence) -> None:
        del replica.running[sequence.key]
        replica.ended.append(AttemptEnd(sequence.key, sequence.usage))
        self.finished += 1
        self.scheduler.finish(GATEWAY, sequence.key, sequence.usage)

    def _cache(self, replica: Replica, hashes: tuple[bytes, ...]) -> None:
        for digest in hashes:
            if digest not in replica.cache:
                replica.added.append(digest)
            replica.cache.pop(digest, None)
            replica.cache[digest] = None
        while len(replica.cache) > self.conditions.cache_pieces:
            gone = next(iter(replica.cache))
            del replica.cache[gone]
            replica.removed.append(gone)

    def _report(self, replica: Replica) -> None:
        conditions = self.conditions
        if self.step_number % conditions.report_every == 0:
            report = self._state_of(replica)
            replica.ended, replica.added, replica.removed = [], [], []
            replica.on_its_way.append((self.step_number + conditions.report_delay, report))
        while replica.on_its_way and replica.on_its_way[0][0] <= self.step_number:
            self.scheduler.worker_report(replica.worker_id, replica.on_its_way.popleft()[1])

    def _state_of(self, replica: Replica) -> WorkerReport:
        blocks = {k: -(-(s.cached + s.computed + s.produced) // BLOCK)
                  for k, s in replica.running.items()}  # fmt: skip
        held = sum(blocks.values())
        load = WorkerLoad(
            free_kv_blocks=max(0, self.conditions.kv_blocks - held),
            held_kv_blocks=held,
            report_time_us=self.clock.now_us(),
        )
        return WorkerReport(
            load=load,
            running=tuple(
                AttemptProgress(key, sequence.usage, blocks[key])
                for key, sequence in replica.running.items()
            ),
            finished=tuple(replica.ended),
            prefix_blocks_added=tuple(replica.added),
            prefix_blocks_removed=tuple(replica.removed),
        )


def chain(tenant: str, family: int, pieces: int) -> tuple[bytes, ...]:
    """The names of a prefix: equal for the requests of one tenant and family alone."""
    digest, hashes = f"{tenant}/{family}".encode(), []
    for _ in range(pieces):
        digest = hashlib.sha256(digest).digest()
        hashes.append(digest)
    return tuple(hashes)
