"""A simulated step engine: iteration-level batching over paged KV memory."""

from bisect import bisect_left, bisect_right

from weir_sim.core.events import Events
from weir_sim.core.service_meter import ServiceMeter
from weir_sim.cost.model import CostModel
from weir_sim.cost.step_timer import StepTimer
from weir_sim.fleet.decodes import Decodes
from weir_sim.fleet.engine_listener import EngineListener
from weir_sim.fleet.flight import Flight
from weir_sim.fleet.kv_cache import KvCache
from weir_sim.fleet.sequence import SimSequence
from weir_sim.fleet.step_rules import RULES, StepPlan, chunk_context
from weir_sim.fleet.victim import choose_victim
from weir_sim.fleet.waiting_line import WaitingLine
from weir_sim.setup import WorkerSpec

_WATERMARK = 0.01


class Engine:
    """Runs sequences by the step rule of its spec.

    Steps keep their own length and effect; but a stretch of decode steps that nothing can
    change is one event, cut short when something arrives.

    Args:
        spec: bounds and rule.
        cost: time of a step.
        events: agenda.
        kv: memory.
        meter: told of what is computed for whom.
        listener: told of what comes of it.

    Raises:
        ValueError: a batch of decodes would not fit into a step.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        cost: CostModel,
        events: Events,
        kv: KvCache,
        meter: ServiceMeter,
        listener: EngineListener,
    ) -> None:
        if spec.max_step_tokens < spec.max_batch_size:
            raise ValueError(
                f"max_step_tokens is {spec.max_step_tokens}: use at least max_batch_size "
                f"({spec.max_batch_size}), one token for each sequence"
            )
        self.spec = spec
        self.cost = cost
        self.kv = kv
        self.waiting = WaitingLine()
        self.running: list[SimSequence] = []
        self.prefilling: list[SimSequence] = []
        self.joined: tuple[int, int] | None = None
        self.prefill_turn = 0
        self.steps = self.busy_us = self.preemptions = 0
        self.prefill_tokens = self.recomputed_tokens = self.cached_tokens = 0
        self._events = events
        self._meter = meter
        self._listener = listener
        self._timer = StepTimer(cost, spec.speed)
        self.decoding = Decodes(kv, self._timer, meter)
        self._rule = RULES[spec.batching]
        self._watermark = int(kv.total * _WATERMARK)
        self._flight: Flight | None = None
        self._flights = 0
        self._waking = False
        self._aborting: set[SimSequence] = set()

    @property
    def decode_tokens(self) -> int:
        """Sequences advanced by one token, over all steps."""
        return self.decoding.tokens

    @property
    def running_requests(self) -> int:
        """Sequences that hold memory."""
        return len(self.running)

    @property
    def waiting_requests(self) -> int:
        """Sequences that wait for it."""
        return len(self.waiting)

    def pending_prefill_tokens(self) -> int:
        """Tokens to compute before every sequence decodes."""
        return sum(s.remaining for s in (*self.waiting, *self.prefilling))

    def step_age_us(self) -> int:
        """Time since the last step ended; 0 while idle."""
        flight = self._flight
        if flight is None:
            return 0
        done = bisect_right(flight.ends, self._events.now_us)
        return self._events.now_us - (flight.ends[done - 1] if done else flight.begin_us)

    def submit(self, sequence: SimSequence) -> None:
        """Queues a sequence; it takes part from the next step on."""
        self.waiting.add(sequence)
        if self._flight is None:
            self._wake()
        elif len(self.waiting) == 1:
            self._cut_short()

    def abort(self, sequence: SimSequence) -> None:
        """Ends a sequence at the next step boundary."""
        if self.waiting.remove(sequence):
            self._listener.ended(sequence, completed=False)
        elif self._flight is None:
            self._drop(sequence)
            self._listener.ended(sequence, completed=False)
        else:
            self._aborting.add(sequence)
            self._cut_short()

    def sync(self) -> None:
        """Takes over the effect of the steps that have ended by now."""
        flight = self._flight
        if flight is not None and flight.decodes and not flight.chunks:
            # The last one, in which something ends, is left to the landing.
            done = min(bisect_right(flight.ends, self._events.now_us), len(flight.ends) - 1)
            self._take_over(flight, done)

    def clear(self) -> list[SimSequence]:
        """Loses everything at once, its memory too; returns what was in it."""
        self.sync()
        lost = [*self.running, *self.waiting]
        for sequence in lost:
            self.kv.release(sequence)
        self.kv.clear()
        self._flight = None
        self._flights += 1
        self.waiting = WaitingLine()
        self.running.clear()
        self.decoding.clear()
        self.prefilling.clear()
        self._aborting.clear()
        return lost

    def wake(self) -> None:
        """Memory was given back: whoever waits for it may begin."""
        if self._flight is None:
            self._wake()

    def check(self) -> None:
        """Recounts the memory. Raises ValueError when its books are wrong."""
        self.kv.check(self.running)

    def admit_first(self) -> bool:
        """See `Batch.admit_first`."""
        sequence = self.waiting.first()
        hit = self.kv.admit(sequence, keep=self._watermark if self.running else 0)
        if hit is None:
            return False
        self.waiting.pop()
        self.running.append(sequence)
        self.joined = None
        self.cached_tokens += hit
        sequence.start_at(hit)
        if sequence.carried and sequence.remaining == 1:
            self.decoding.add(sequence)
        else:
            self.prefilling.append(sequence)
        return True

    def _wake(self) -> None:
        """Begins after all that happens at this moment."""
        if not self._waking:
            self._waking = True
            self._events.at(self._events.now_us, self._woken)

    def _woken(self) -> None:
        self._waking = False
        if self._flight is None:
            self._begin()

    def _begin(self) -> None:
        preempted = self._make_room()
        plan = self._rule(self, not preempted)
        if not plan.chunks and not (plan.decodes and self.decoding):
            return
        now_us = self._events.now_us
        if plan.chunks:
            ends = [now_us + self._step_us(plan)]
        else:
            steps = 1 if preempted else self.decoding.flight_length()
            ends = self.decoding.ends_from(now_us, steps)
        self._flight = Flight(now_us, ends, plan.chunks, plan.decodes)
        self._arm()

    def _arm(self) -> None:
        flight = self._flight
        assert flight is not None
        self._flights += 1
        number = self._flights
        self._events.at(flight.ends[-1], lambda: self._landed(number))

    def _cut_short(self) -> None:
        """Ends the flight with the step that is under way."""
        flight = self._flight
        if flight is None or len(flight.ends) == 1:
            return
        under_way = bisect_left(flight.ends, self._events.now_us)
        if under_way < len(flight.ends) - 1:
            del flight.ends[under_way + 1 :]
            self._arm()

    def _landed(self, number: int) -> None:
        flight = self._flight
        if number != self._flights or flight is None:
            return
        self._take_over(flight, len(flight.ends))
        self._flight = None
        self._end_complete()
        for sequence, length in flight.chunks:
            self._computed(sequence, length)
        for sequence in list(self._aborting):
            self._aborting.discard(sequence)
            if sequence in self.running:
                self._drop(sequence)
                self._listener.ended(sequence, completed=False)
        self._listener.stepped()
        self._wake()

    def _take_over(self, flight: Flight, done: int) -> None:
        steps = done - flight.done
        if steps <= 0:
            return
        first = flight.ends[flight.done - 1] if flight.done else flight.begin_us
        self.busy_us += flight.ends[done - 1] - first
        self.steps += steps
        if flight.decodes and self.decoding:
            self.decoding.advance(flight.ends[flight.done : done])
        flight.done = done

    def _end_complete(self) -> None:
        for sequence in self.decoding.complete():
            self._drop(sequence)
            self._listener.ended(sequence, completed=True)

    def _computed(self, sequence: SimSequence, length: int) -> None:
        """A chunk of a sequence has been computed; when it was the last, a token comes of it."""
        before = sequence.computed
        sequence.computed += length
        self.prefill_tokens += length
        again = max(0, min(sequence.high_water, sequence.computed) - before)
        sequence.recomputed += again
        self.recomputed_tokens += again
        fresh = min(sequence.prompt, sequence.computed) - max(before, sequence.high_water)
        if fresh > 0:
            self._meter.prompt(sequence.tenant, fresh)
        sequence.high_water = max(sequence.high_water, sequence.computed)
        self.kv.publish(sequence)
        if sequence.remaining == 0:
            self._sample(sequence)

    def _sample(self, sequence: SimSequence) -> None:
        now_us = self._events.now_us
        sequence.total += 1
        self._meter.output(sequence.tenant, 1)
        if sequence.first_token_us < 0:
            sequence.first_token_us = now_us
            self._listener.first_token(sequence)
        else:
            sequence.add_gap(now_us - sequence.last_token_us)
        sequence.last_token_us = now_us
        self.prefilling.remove(sequence)
        if sequence.total >= sequence.target:
            self._drop(sequence)
            self._listener.ended(sequence, completed=True)
        elif self._listener.prefilled(sequence):
            self.running.remove(sequence)
        else:
            self.decoding.add(sequence)

    def _make_room(self) -> bool:
        """Gives every decode its next block; whether anyone was pre-empted for it."""
        preempted = False
        while self.decoding.growth(1) > self.kv.available:
            victim = choose_victim(self.running)
            if victim is None:
                break
            self._drop(victim)
            victim.restart()
            self.waiting.add_preempted(victim)
            self.preemptions += 1
            preempted = True
        self.decoding.take_next_blocks()
        return preempted

    def _step_us(self, plan: StepPlan) -> int:
        tokens = positions = 0
        for sequence, length in plan.chunks:
            tokens += length
            positions += chunk_context(sequence.computed, length)
        if not plan.decodes:
            return self._timer.step_us(tokens, positions, 0, 0)
        return self._timer.step_us(tokens, positions, len(self.decoding), self.decoding.context())

    def _drop(self, sequence: SimSequence) -> None:
        """Takes a sequence out and gives back its memory."""
        self.running.remove(sequence)
        if sequence in self.decoding:
            self.decoding.remove(sequence)
        elif sequence in self.prefilling:
            self.prefilling.remove(sequence)
        self.kv.release(sequence)


def new_engine(
    spec: WorkerSpec,
    granularity: int,
    cost: CostModel,
    events: Events,
    meter: ServiceMeter,
    listener: EngineListener,
) -> Engine:
    """An engine with memory of its own; `granularity` is the tokens of a prefix hash."""
    kv = KvCache(spec.kv_blocks, spec.block_size, granularity, spec.cache_blocks)
    return Engine(spec, cost, events, kv, meter, listener)
