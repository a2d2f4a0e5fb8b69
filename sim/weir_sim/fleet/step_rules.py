"""What a step computes: the product's rule, and those that it is compared with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from weir_sim.cost.model import CostModel
from weir_sim.fleet.decodes import Decodes
from weir_sim.fleet.prefill_shares import prefill_shares
from weir_sim.fleet.sequence import SimSequence
from weir_sim.fleet.waiting_line import WaitingLine
from weir_sim.setup import Batching, WorkerSpec

_SMALL_CHUNK = 16
_SIDE_BY_SIDE = 4
_LEAST_PREFILL = 4
_STRETCH = 2.2
_LEAST_STRETCH = 1.5
_UNSEEN_S = 0.05


class Batch(Protocol):
    """What a rule sees of an engine."""

    spec: WorkerSpec
    cost: CostModel
    waiting: WaitingLine
    running: list[SimSequence]
    decoding: Decodes
    prefilling: list[SimSequence]
    joined: tuple[int, int] | None
    """Decodes, and their context, when the last prompt joined them; None: with the next step."""
    prefill_turn: int
    """Steps with prefill so far, by the rule that divides it."""

    def admit_first(self) -> bool:
        """Admits the first that waits; False, with nothing changed, when memory is lacking."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: prompt tokens of some sequences, and whether all decodes advance."""

    chunks: list[tuple[SimSequence, int]]
    decodes: bool


StepRule = Callable[[Batch, bool], StepPlan]
"""From an engine, and whether it may admit, to the next step."""


def chunked(batch: Batch, may_admit: bool) -> StepPlan:
    """Decodes first, then several partial prefills within tokens and predicted time.

    After Sarathi-Serve (OSDI 2024), with the bounds of the product's worker: prompts side by
    side while each can have 16 tokens of the step, and no longer a step than `max_step_s`
    while others decode.
    """
    budget = batch.spec.max_step_tokens - len(batch.decoding)
    if may_admit:
        _admit(batch, min(budget, max(_SIDE_BY_SIDE, budget // _SMALL_CHUNK)))
    prefilling = batch.prefilling
    if not prefilling:
        return StepPlan([], True)
    batch.prefill_turn += 1
    shares = prefill_shares(prefilling, budget, batch.prefill_turn)
    if batch.decoding and sum(shares) > _LEAST_PREFILL:
        shares = _shrink(batch, shares)
    return StepPlan([(s, n) for s, n in zip(prefilling, shares, strict=True) if n], True)


def prefill_first(batch: Batch, may_admit: bool) -> StepPlan:
    """Whole prompts alone while any can be admitted, then decodes: each prompt stalls them."""
    budget = batch.spec.max_step_tokens
    chunks = _whole_prompts(batch, budget) if may_admit else []
    return StepPlan(chunks, not chunks)


def decode_first(batch: Batch, may_admit: bool) -> StepPlan:
    """All decodes, and whole prompts beside them (iteration-level batching as in Orca)."""
    budget = batch.spec.max_step_tokens - len(batch.decoding)
    return StepPlan(_whole_prompts(batch, budget) if may_admit else [], True)


def static(batch: Batch, may_admit: bool) -> StepPlan:
    """A batch's prompts, then its decodes until the last one ends; nobody joins meanwhile."""
    if may_admit and not batch.running:
        _admit(batch, batch.spec.max_batch_size)
    if not batch.prefilling:
        return StepPlan([], True)
    chunks: list[tuple[SimSequence, int]] = []
    left = batch.spec.max_step_tokens
    for sequence in batch.prefilling:
        if chunks and sequence.remaining > left:
            break
        chunks.append((sequence, sequence.remaining))
        left -= sequence.remaining
    return StepPlan(chunks, False)


RULES: dict[Batching, StepRule] = {
    Batching.CHUNKED: chunked,
    Batching.PREFILL_FIRST: prefill_first,
    Batching.DECODE_FIRST: decode_first,
    Batching.STATIC: static,
}


def chunk_context(start: int, length: int) -> int:
    """Positions that the rows of a chunk read: each row all before it and itself."""
    return length * start + length * (length + 1) // 2


def _admit(batch: Batch, most_prefilling: int) -> None:
    while (
        batch.waiting
        and len(batch.prefilling) < most_prefilling
        and len(batch.running) < batch.spec.max_batch_size
        and batch.admit_first()
    ):
        pass


def _whole_prompts(batch: Batch, budget: int) -> list[tuple[SimSequence, int]]:
    """Admits prompts, and computes each whole: those within the budget, and one in any case."""
    while batch.waiting and len(batch.running) < batch.spec.max_batch_size:
        taken = sum(sequence.remaining for sequence in batch.prefilling)
        fits = taken + batch.waiting.first().remaining <= budget
        if (batch.prefilling and not fits) or not batch.admit_first():
            break
    return [(sequence, sequence.remaining) for sequence in batch.prefilling]


def _shrink(batch: Batch, shares: list[int]) -> list[int]:
    """Cuts prefill until the step is predicted to keep its decodes waiting no longer."""
    decodes = len(batch.decoding)
    context = batch.decoding.context()
    batch.joined = then, context_then = batch.joined or (decodes, context)
    at_most = min(context, context_then * decodes // then)
    most_s = batch.spec.max_step_s or max(
        _STRETCH * batch.cost.step_s(0, 0, decodes, at_most),
        _LEAST_STRETCH * batch.cost.step_s(0, 0, decodes, context),
    )
    if not batch.spec.max_step_s and all(
        sequence.total <= batch.spec.max_step_tokens for sequence in batch.prefilling
    ):
        most_s = max(most_s, _UNSEEN_S)

    def shares_of(tokens: int) -> list[int]:
        if len(shares) == 1:
            return [tokens]
        return prefill_shares(batch.prefilling, tokens, batch.prefill_turn)

    def too_long(shares: list[int]) -> bool:
        positions = 0
        for sequence, length in zip(batch.prefilling, shares, strict=True):
            positions += chunk_context(sequence.computed, length)
        return batch.cost.step_s(sum(shares), positions, decodes, context) > most_s

    if not too_long(shares):
        return shares
    low, high = _LEAST_PREFILL, sum(shares)
    while high - low > max(1, low // 8):
        middle = (low + high) // 2
        if too_long(shares_of(middle)):
            high = middle
        else:
            low = middle
    return shares_of(low)
