"""Engines apart for prefill and decode, which act as one (`Engine`)."""

from collections.abc import Callable, Iterable, Sequence

from weir_sim.core.events import Events
from weir_sim.fleet.engine import Engine
from weir_sim.fleet.engine_listener import EngineListener
from weir_sim.fleet.kv_cache import KvCache
from weir_sim.fleet.sequence import SimSequence
from weir_sim.setup import SplitSpec


class SplitMemory:
    """The memories of several engines in one report; requests end up in those that decode."""

    def __init__(self, prefill: Sequence[KvCache], decode: Sequence[KvCache]) -> None:
        self._all = (*prefill, *decode)
        self._decode = tuple(decode)
        self.total = sum(kv.total for kv in decode)

    @property
    def free(self) -> int:
        """Free blocks where requests are decoded."""
        return sum(kv.free for kv in self._decode)

    @property
    def cached(self) -> int:
        """Cached blocks there."""
        return sum(kv.cached for kv in self._decode)

    @property
    def held(self) -> int:
        """Held blocks there."""
        return sum(kv.held for kv in self._decode)

    @property
    def peak_held(self) -> int:
        """Sum of their peaks."""
        return sum(kv.peak_held for kv in self._decode)

    @property
    def changed(self) -> bool:
        """See `KvCache`."""
        return any(kv.changed for kv in self._all)

    def tell_all(self) -> None:
        """See `KvCache`."""
        for kv in self._all:
            kv.tell_all()

    def take_changes(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """See `KvCache`: what any of them found or lost."""
        changes = [kv.take_changes() for kv in self._all]
        added = tuple(digest for found, _ in changes for digest in found)
        removed = tuple(digest for _, lost in changes for digest in lost)
        return added, removed


class _Part:
    """Listens to the engines of one kind.

    Args:
        split: of which they are a part.
        listener: of the whole.
        hands_over: whether a computed prompt moves on.
    """

    def __init__(self, split: "SplitEngine", listener: EngineListener, *, hands_over: bool) -> None:
        self._split = split
        self._listener = listener
        self._hands_over = hands_over
        self.first_token = listener.first_token
        self.stepped = listener.stepped

    def prefilled(self, sequence: SimSequence) -> bool:
        """See `EngineListener`."""
        if self._hands_over:
            self._split.hand_over(sequence)
        return self._hands_over

    def ended(self, sequence: SimSequence, *, completed: bool) -> None:
        """See `EngineListener`."""
        self._split.forget(sequence)
        self._listener.ended(sequence, completed=completed)


class SplitEngine:
    """Prompts go to the prefill engine with the least to compute, then where the fewest decode.

    Args:
        spec: how many of each, and how fast KV moves.
        make: an engine that tells a listener.
        events: agenda.
        listener: told of what comes of it.
    """

    def __init__(
        self,
        spec: SplitSpec,
        make: Callable[[EngineListener], Engine],
        events: Events,
        listener: EngineListener,
    ) -> None:
        self._spec = spec
        self._events = events
        self._listener = listener
        prefilling = _Part(self, listener, hands_over=True)
        decoding = _Part(self, listener, hands_over=False)
        self._prefill = [make(prefilling) for _ in range(spec.prefill)]
        self._decode = [make(decoding) for _ in range(spec.decode)]
        self._at: dict[SimSequence, Engine] = {}
        self._moving: dict[SimSequence, Engine] = {}
        self._aborted: set[SimSequence] = set()
        self.kv = SplitMemory([e.kv for e in self._prefill], [e.kv for e in self._decode])

    def submit(self, sequence: SimSequence) -> None:
        """See `Engine`."""
        engine = min(self._prefill, key=lambda engine: engine.pending_prefill_tokens())
        self._at[sequence] = engine
        engine.submit(sequence)

    def abort(self, sequence: SimSequence) -> None:
        """See `Engine`; what moves ends when it has arrived."""
        if sequence in self._moving:
            self._aborted.add(sequence)
        else:
            self._at[sequence].abort(sequence)

    def hand_over(self, sequence: SimSequence) -> None:
        """A prompt is computed: its KV moves, and stays where it was until it has arrived."""
        engine = self._moving[sequence] = self._at.pop(sequence)
        seconds = self._spec.transfer_s + self._spec.transfer_token_s * sequence.computed
        at_us = self._events.now_us + round(seconds * 1e6)
        self._events.at(at_us, lambda: self._arrived(sequence, engine))

    def forget(self, sequence: SimSequence) -> None:
        """It has ended."""
        self._at.pop(sequence, None)

    def sync(self) -> None:
        """See `Engine`."""
        for engine in self._engines():
            engine.sync()

    def clear(self) -> list[SimSequence]:
        """See `Engine`."""
        lost = [*self._moving]
        for sequence, engine in self._moving.items():
            engine.kv.release(sequence)
        for engine in self._engines():
            lost += engine.clear()
        self._at.clear()
        self._moving.clear()
        self._aborted.clear()
        return lost

    def check(self) -> None:
        """See `Engine`."""
        for engine in self._engines():
            moving = [s for s, source in self._moving.items() if source is engine]
            engine.kv.check([*engine.running, *moving])

    def pending_prefill_tokens(self) -> int:
        """See `Engine`."""
        return self._sum(engine.pending_prefill_tokens() for engine in self._engines())

    def step_age_us(self) -> int:
        """See `Engine`: of the one that has taken longest."""
        return max(engine.step_age_us() for engine in self._engines())

    @property
    def running_requests(self) -> int:
        """See `Engine`; those that move among them."""
        return len(self._moving) + self._sum(len(engine.running) for engine in self._engines())

    @property
    def waiting_requests(self) -> int:
        """See `Engine`."""
        return self._sum(len(engine.waiting) for engine in self._engines())

    @property
    def steps(self) -> int:
        """Steps of all engines."""
        return self._sum(engine.steps for engine in self._engines())

    @property
    def busy_us(self) -> int:
        """Time in steps, of all engines together."""
        return self._sum(engine.busy_us for engine in self._engines())

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens computed."""
        return self._sum(engine.prefill_tokens for engine in self._engines())

    @property
    def decode_tokens(self) -> int:
        """Sequences advanced by one token."""
        return self._sum(engine.decode_tokens for engine in self._engines())

    @property
    def recomputed_tokens(self) -> int:
        """Computed again."""
        return self._sum(engine.recomputed_tokens for engine in self._engines())

    @property
    def cached_tokens(self) -> int:
        """Found in a cache."""
        return self._sum(engine.cached_tokens for engine in self._engines())

    @property
    def preemptions(self) -> int:
        """For want of memory."""
        return self._sum(engine.preemptions for engine in self._engines())

    def _arrived(self, sequence: SimSequence, source: Engine) -> None:
        if self._moving.get(sequence) is not source:
            return
        del self._moving[sequence]
        source.kv.release(sequence)
        source.wake()
        if sequence in self._aborted:
            self._aborted.discard(sequence)
            self._listener.ended(sequence, completed=False)
            return
        sequence.carried = sequence.computed
        engine = min(self._decode, key=lambda engine: len(engine.running) + len(engine.waiting))
        self._at[sequence] = engine
        engine.submit(sequence)

    def _engines(self) -> tuple[Engine, ...]:
        return (*self._prefill, *self._decode)

    @staticmethod
    def _sum(values: Iterable[int]) -> int:
        return sum(values)
