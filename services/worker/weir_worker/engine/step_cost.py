"""How long a step will take, learned from those that ran."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weir_worker.engine.linear_fit import LinearFit, product

# Steps that decode alone are many and alike.
_ALL_OF_THE_FIRST, _ONE_IN = 32, 8
# Steps with prefill that tell decodes and prefill apart, if none without was seen.
_ENOUGH = 64
# A step is within what is known if it does at most so many times what any did.
_FURTHER = 2
# And however little ran so far, if it does no more than a prompt of so many tokens.
_FIRST_PREFILL = 64


@dataclass(frozen=True, slots=True)
class StepShape:
    """What a step computes.

    Attributes:
        decodes: rows of sequences that decode.
        decode_context: tokens that these rows read, each row all before it and itself.
        prefills: rows of prompts.
        prefill_context: tokens that these rows attend to, each row all before it and itself.
        prefill_reads: tokens whose KV is read for them, once for all rows of a chunk.
    """

    decodes: int = 0
    decode_context: int = 0
    prefills: int = 0
    prefill_context: int = 0
    prefill_reads: int = 0

    @classmethod
    def of(cls, decodes: Iterable[int], chunks: Iterable[tuple[int, int]] = ()) -> "StepShape":
        """Make it from the context of each decode, and (start, length) of each chunk."""
        contexts = list(decodes)
        pieces = [(start, length) for start, length in chunks if length]
        return cls(
            len(contexts),
            sum(contexts),
            sum(length for _, length in pieces),
            sum(chunk_context(start, length) for start, length in pieces),
            sum(start + length for start, length in pieces),
        )

    def with_chunks(self, chunks: Iterable[tuple[int, int]]) -> "StepShape":
        """The same decodes with these (start, length) of prompts."""
        prefill = StepShape.of((), chunks)
        return replace(prefill, decodes=self.decodes, decode_context=self.decode_context)

    def with_context_of(self, before: "StepShape") -> "StepShape":
        """The same decodes with the context that one had then, on average, if it had less."""
        grown = self.decode_context * before.decodes > before.decode_context * self.decodes
        if not grown:
            return self
        return replace(self, decode_context=before.decode_context * self.decodes // before.decodes)


def chunk_context(start: int, length: int) -> int:
    """Tokens that the rows of a chunk attend to: each row all before it and itself."""
    return length * start + length * (length + 1) // 2


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was known of the time of steps at one moment."""

    coefficients: Sequence[float]

    def predict_us(self, shape: StepShape) -> float:
        """Predict the time of a step, microseconds; 0 if nothing was known."""
        if not shape.prefills and not shape.decodes:
            return 0.0
        return product(self.coefficients, _features(shape))


class StepCost:
    """Time of a step, linear in its rows, in what they attend to and in the KV that is read.

    One fit of all steps: while prompts come all the time no step decodes alone, and what grows
    with the decodes must not be taken for the price of prefill. What was never seen costs nothing.
    """

    def __init__(self) -> None:
        self._most_prefills = 0
        self._most_context = 0
        self._decode_steps = 0
        self._decodes_seen = 0
        self._fit = LinearFit(6)

    def wants(self, prefills: bool) -> bool:
        """Whether the step that ran is to be observed: of those that decode alone, one in 8."""
        if prefills:
            return True
        self._decode_steps += 1
        return self._decode_steps <= _ALL_OF_THE_FIRST or self._decode_steps % _ONE_IN == 0

    def observe(self, shape: StepShape, us: int) -> None:
        """Learn from a step that took so many microseconds."""
        if shape.prefills:
            self._most_prefills = max(self._most_prefills, shape.prefills)
            self._most_context = max(self._most_context, shape.prefill_context)
        else:
            self._decodes_seen += 1
        self._fit.observe(_features(shape), us)

    def knows(self, shape: StepShape) -> bool:
        """Whether its prefill is not far beyond all that ran: a prediction can be believed.

        Many rows are, and so are few that begin late in a prompt, as behind a cached prefix.
        """
        rows = max(_FIRST_PREFILL, _FURTHER * self._most_prefills)
        context = max(chunk_context(0, _FIRST_PREFILL), _FURTHER * self._most_context)
        return shape.prefills <= rows and shape.prefill_context <= context

    def predict_us(self, shape: StepShape) -> float:
        """Predict the time of a step, microseconds; 0 while nothing is known."""
        return self.now().predict_us(shape)

    @property
    def tells_decodes(self) -> bool:
        """Whether enough ran to tell what decodes cost alone."""
        return self._decodes_seen > 0 or self._fit.samples >= _ENOUGH

    def now(self) -> Prediction:
        """What is known now."""
        return Prediction(self._fit.coefficients())


def _features(shape: StepShape) -> Sequence[float]:
    return (
        1.0,
        shape.decodes / 64,
        shape.decode_context / 65_536,
        shape.prefills / 64,
        shape.prefill_context / 131_072,
        shape.prefill_reads / 8_192,
    )
