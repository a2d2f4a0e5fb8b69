"""The random numbers of one request, and what it has drawn."""

import hashlib
import secrets
import struct
from collections.abc import Collection, Iterable

from weir_worker.sampling.constraint import Constraint
from weir_worker.sampling.params import COOLEST, SamplingParams

_UNIT = 2.0**-52


class SamplingState:
    """Parameters of a request and how many tokens it has drawn.

    A counter-based generator: the number for position n is a hash of (seed, n). It does not
    depend on batch-mates, chunks or pre-emptions, and nothing has to be saved or restored.

    Attributes:
        params: as submitted.
        temperature: the divisor of the logits, at least 0.01.
        drawn: tokens drawn so far.
        adjusts: whether its logits are changed before a token is drawn.
        prompt: ids of the prompt, each once; empty unless repetition is penalised.
        counts: token id -> times that the output holds it; empty unless something is penalised.
        stop_ids: tokens that end it, not drawn before `min_tokens`.
        constraint: what the output must match; None for anything.
    """

    __slots__ = (
        "_seed",
        "adjusts",
        "constraint",
        "counts",
        "drawn",
        "greedy",
        "params",
        "prompt",
        "stop_ids",
        "temperature",
    )

    def __init__(
        self,
        params: SamplingParams,
        prompt: Iterable[int] = (),
        stop_ids: Collection[int] = (),
        constraint: Constraint | None = None,
    ) -> None:
        self.params = params
        self.constraint = constraint
        self.adjusts = params.adjusts or constraint is not None
        self.prompt = frozenset(prompt if params.repetition_penalty != 1.0 else ())
        self.counts: dict[int, int] = {}
        self.stop_ids = list(stop_ids)
        self.greedy = params.greedy
        self.temperature = max(params.temperature, COOLEST)
        self.drawn = 0
        seed = secrets.randbits(63) if params.seed is None else params.seed
        self._seed = struct.pack("<q", seed)

    def note(self, token_id: int) -> None:
        """Count a token that was drawn."""
        self.drawn += 1
        if self.constraint is not None:
            self.constraint.note(token_id)
        if self.params.penalises:
            self.counts[token_id] = self.counts.get(token_id, 0) + 1

    @property
    def complete(self) -> bool:
        """Whether its constraint lets nothing follow."""
        return self.constraint is not None and self.constraint.complete

    @property
    def problem(self) -> str:
        """Why no token can be drawn; empty for a reason that is not its own."""
        return "" if self.constraint is None else self.constraint.problem

    def uniform(self) -> float:
        """Return the number in [0, 1) for the next token."""
        counter = struct.pack("<q", self.drawn)
        digest = hashlib.blake2b(self._seed + counter, digest_size=8, person=b"weir-sample")
        return (int.from_bytes(digest.digest(), "little") >> 12) * _UNIT
