"""Decides which sequences run and what each step computes (iteration-level scheduling).

Decodes first, then several partial prefills, after Sarathi-Serve (OSDI 2024); pre-emption by
recompute as in vLLM.
"""

from weir_worker.engine.decode_turns import DecodeTurns
from weir_worker.engine.limits import StepLimits
from weir_worker.engine.prefill_shares import prefill_shares
from weir_worker.engine.sequence import Sequence, Status
from weir_worker.engine.step_cost import Prediction, StepCost, StepShape
from weir_worker.engine.step_plan import StepPlan
from weir_worker.engine.victims import choose_victim, choose_victim_of
from weir_worker.engine.waiting import WaitingQueue
from weir_worker.kv import KvManager, Shortage

# Prompts are computed side by side as long as each can have chunks of this size; shorter ones
# cost more overhead than they are worth, but one long prompt may not keep all others waiting.
_SMALL_CHUNK = 16
_SIDE_BY_SIDE = 4
# The logits of a row are as wide as the vocabulary.
_TOLD_CHUNK = 64
# Beside decodes a step prefills so much, however dear it is: every prompt advances.
LEAST_PREFILL = 4
# How much longer a step may take than its decodes alone did when the last prompt joined them.
STRETCH = 2.2
# And than they do now: were they to fill that time themselves, no prompt would ever end.
LEAST_STRETCH = 1.5
# And how long in any case for prompts that one step could hold: a reader sees no such gap, and
# those who wait for their first token wait less.
UNSEEN_US = 50_000


class StepPlanner:
    """Owner of the running and the waiting sequences. Reads no clock and knows no model.

    Attributes:
        running: sequences that hold KV, in the order in which they were admitted.
        waiting: the others.
        preemptions: total so far.
        now_us: start of the step that is planned, Unix microseconds, for the timelines.
        cost: predicts the time of a step; whoever runs steps teaches it.
    """

    def __init__(self, kv: KvManager, limits: StepLimits) -> None:
        self.limits = limits
        self.running: list[Sequence] = []
        self.waiting = WaitingQueue()
        self.preemptions = 0
        self.now_us = 0
        self.cost = StepCost()
        self._turns = DecodeTurns()
        self._prefilling: list[Sequence] = []
        self._passed: list[str] = []
        self._prefill_turn = 0
        self._kv = kv
        self._preempted = False
        # Decodes when the last prompt joined them, and what was known of steps; None: with the
        # next step. Steps that are all alike then do not tell decodes and prefill apart.
        self._joined: tuple[StepShape, Prediction] | None = None

    def has_work(self) -> bool:
        """Whether any sequence runs or waits."""
        return bool(self.running) or len(self.waiting) > 0

    def pending_prefill_tokens(self) -> int:
        """Tokens to compute before every sequence decodes, waiting ones included."""
        running = (s.remaining for s in self._prefilling if s.status is Status.RUNNING)
        return self.waiting.tokens + sum(remaining for remaining in running if remaining > 1)

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence."""
        self.waiting.add(sequence)

    def remove(
        self, sequence: Sequence, *, discard: bool = False, keep_turn: bool = False
    ) -> list[int]:
        """Drop a sequence wherever it is and give back its blocks; twice is once.

        `discard`: its KV is not to be trusted and may not be found by anyone. `keep_turn`: it
        ended well, and its session, if it is of one, goes on from its end.

        Returns:
            Indices of the blocks that nobody holds any more.
        """
        if sequence.status is Status.RUNNING:
            self.running.remove(sequence)
        elif sequence.status is Status.WAITING:
            self.waiting.remove(sequence)
        if keep_turn and sequence.session_ttl_us and sequence.status is Status.RUNNING:
            self._kv.keep_turn(sequence.table, sequence.computed, sequence.session_ttl_us)
        sequence.status = Status.FINISHED
        return self._kv.close(sequence.table, discard=discard)

    def preempt(self, sequence: Sequence) -> None:
        """Take the blocks of a running sequence; it waits to be computed again."""
        self.running.remove(sequence)
        self._kv.release(sequence.table)
        sequence.restart(self.now_us)
        self.waiting.add_preempted(sequence)
        self.preemptions += 1
        self._preempted = True

    def plan(self) -> StepPlan:
        """Make room for every decode, admit what fits, and fill the step with prefill."""
        self._make_room()
        plan = StepPlan()
        limits = self.limits
        ready: list[Sequence] = []
        prefills: list[Sequence] = []
        for sequence in self.running:
            (ready if sequence.remaining == 1 else prefills).append(sequence)
        plan.sequences = self._turns.pick(ready, limits.max_step_tokens, limits.step_context_tokens)
        plan.decodes = len(plan.sequences)
        plan.lengths = [1] * plan.decodes
        budget = limits.max_step_tokens - plan.decodes
        if not self._preempted:
            self._admit(prefills, budget)
        self._preempted = False
        self._add_prefills(plan, prefills, budget)
        return plan

    def _make_room(self) -> None:
        """Give a block to every sequence whose next token needs one.

        A sequence that can never fit is refused on arrival, so when all but the oldest (of a
        tenant, of all) have been pre-empted, the oldest fits.
        """
        size = self._kv.block_size
        needy = [
            sequence
            for sequence in self.running
            if sequence.computed % size == 0
            and len(sequence.token_ids) > len(sequence.table.blocks) * size
        ]
        self._keep_quotas(needy)
        while len(needy) > self._kv.available_blocks:
            # Alone and without room only if blocks are held by no sequence: then it waits,
            # and the engine's stall watch ends it.
            victim = choose_victim(self.running) or self.running[0]
            self._preempt_of(needy, victim)
        for sequence in needy:
            self._kv.grow(sequence.table)

    def _keep_quotas(self, needy: list[Sequence]) -> None:
        """Pre-empt sequences of tenants that would exceed their own quota."""
        for tenant in {sequence.tenant for sequence in needy if sequence.table.quota}:
            while _exceed_quota([s for s in needy if s.tenant == tenant]):
                victim = choose_victim_of(tenant, self.running)
                # Alone a sequence is within the quota that it was accepted with.
                if victim is None:
                    break
                self._preempt_of(needy, victim)

    def _preempt_of(self, needy: list[Sequence], victim: Sequence) -> None:
        self.preempt(victim)
        if victim in needy:
            needy.remove(victim)

    def _admit(self, prefills: list[Sequence], budget: int) -> None:
        most = min(budget, max(_SIDE_BY_SIDE, budget // _SMALL_CHUNK))
        at_quota: set[str] = set()
        while len(prefills) < most and len(self.running) < self.limits.max_running:
            sequence = self.waiting.first(passing=at_quota)
            if sequence is None:
                return
            shortage = self._start(sequence)
            if shortage is Shortage.MEMORY:
                return
            if shortage is Shortage.QUOTA:
                at_quota.add(sequence.tenant)
            else:
                prefills.append(sequence)

    def _start(self, sequence: Sequence) -> Shortage | None:
        """Take blocks for the whole prompt (and output so far), or change nothing."""
        hit = self._kv.allocate(
            sequence.table,
            len(sequence.token_ids),
            keep_available=self.limits.watermark_blocks if self.running else 0,
            most_hit=sequence.most_hit,
            count=sequence.preemptions == 0,
        )
        if isinstance(hit, Shortage):
            return hit
        self.waiting.remove(sequence)
        sequence.resume_at(hit)
        self.running.append(sequence)
        self._joined = None
        return None

    def _add_prefills(self, plan: StepPlan, prefills: list[Sequence], budget: int) -> None:
        self._prefilling = prefills
        self._prefill_turn += 1
        shares = self._divide(prefills, budget)
        if plan.decodes and sum(shares) > LEAST_PREFILL:
            shares = self._shrink(plan, prefills, shares)
        for sequence, share in zip(prefills, shares, strict=True):
            if share > 0:
                plan.sequences.append(sequence)
                plan.lengths.append(share)
        self._note_passed(prefills, shares)

    def _note_passed(self, prefills: list[Sequence], shares: list[int]) -> None:
        """Remember the tenants without a share, who has waited longest first."""
        served = {s.tenant for s, share in zip(prefills, shares, strict=True) if share > 0}
        waiting = {s.tenant: None for s in prefills if s.tenant not in served}
        before = [tenant for tenant in self._passed if tenant in waiting]
        self._passed = list(dict.fromkeys((*before, *waiting)))

    def _divide(self, prefills: list[Sequence], budget: int) -> list[int]:
        cap = self.limits.max_prefill_chunk or budget
        wanted = [(sequence.tenant, _chunk(sequence, cap)) for sequence in prefills]
        weights = {sequence.tenant: sequence.table.account.weight for sequence in prefills}
        return prefill_shares(wanted, budget, weights, self._passed, self._prefill_turn)

    def _shrink(self, plan: StepPlan, prefills: list[Sequence], shares: list[int]) -> list[int]:
        """Cut prefill until the step is predicted to keep its decodes waiting no longer.

        A chunk late in a long prompt is dear, so it becomes shorter; it never falls below
        `LEAST_PREFILL`. Nothing far beyond what ran before is believed.
        """
        decodes = plan.shape()
        most_us = self.limits.max_step_us or self._stretched_us(decodes)
        if not self.limits.max_step_us and all(self._is_short(one) for one in prefills):
            most_us = max(most_us, UNSEEN_US)

        def fits(shares: list[int]) -> bool:
            shape = self._shape(decodes, prefills, shares)
            return self.cost.knows(shape) and (
                not most_us or self.cost.predict_us(shape) <= most_us
            )

        if fits(shares):
            return shares
        low, high = LEAST_PREFILL, sum(shares)
        while high - low > max(1, low // 8):
            middle = (low + high) // 2
            if fits(self._divide(prefills, middle)):
                low = middle
            else:
                high = middle
        return self._divide(prefills, low)

    def _stretched_us(self, decodes: StepShape) -> float:
        """How long a step with these decodes may take, microseconds; 0 while nothing is known.

        They read more with every token. Were the bound to grow with them, a stream that waits
        for a long prompt would wait longer and longer.
        """
        if self._joined is None and not self.cost.tells_decodes:
            return 0.0
        self._joined = self._joined or (decodes, self.cost.now())
        before, known = self._joined
        then = known.predict_us(decodes.with_context_of(before))
        return max(STRETCH * then, LEAST_STRETCH * known.predict_us(decodes))

    def _is_short(self, sequence: Sequence) -> bool:
        return len(sequence.token_ids) <= self.limits.max_step_tokens

    def _shape(self, decodes: StepShape, prefills: list[Sequence], shares: list[int]) -> StepShape:
        starts = [sequence.computed for sequence in prefills]
        return decodes.with_chunks(zip(starts, shares, strict=True))


def _exceed_quota(growing: list[Sequence]) -> bool:
    """Whether a tenant would exceed its quota if each of these took a block."""
    return any(sequence.table.exceeds_quota(len(growing)) for sequence in growing)


def _chunk(sequence: Sequence, cap: int) -> int:
    """Most tokens of a prompt in one step; few where each has logits of its own."""
    most = cap if sequence.told is None else min(cap, _TOLD_CHUNK)
    return min(sequence.remaining, most)
