"""One request and what came of it, by the client's clock."""

from dataclasses import dataclass, field

import numpy as np

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_cli.load.load_request import LoadRequest


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request was not answered in full.

    Attributes:
        kind: what failures are counted by: `429 tpm` by the limit's family, `503 QUEUE_FULL`,
            `ReadTimeout`.
        message: the server's words, cut.
    """

    kind: str
    message: str

    @property
    def limited(self) -> bool:
        """Whether a limit refused it."""
        return self.kind.startswith("429")


@dataclass(slots=True)
class Exchange:
    """Moments are seconds of one monotonic clock.

    Attributes:
        request: what was asked.
        intended_s: when it was to be sent: every latency counts from here, so that a server that
            is slow, or a client that is late, cannot hide it.
        sent_s: when it was.
        arrivals: moment and number of tokens of each piece of the answer.
        end_s: when the answer, or the failure, was complete.
        prompt_tokens, output_tokens: as the server counts; wanted and seen ones if it does not.
        failure: None for an answer in full.
        record: of the request's life, where the door tells it.
    """

    request: LoadRequest
    intended_s: float
    sent_s: float = 0.0
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    end_s: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    failure: Failure | None = None
    record: LifecycleRecord | None = None

    @property
    def ttft_s(self) -> float | None:
        """To the first token; None before it."""
        return self.arrivals[0][0] - self.intended_s if self.arrivals else None

    @property
    def e2e_s(self) -> float:
        """To the end."""
        return self.end_s - self.intended_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time of a token after the first; None with fewer than two."""
        if self.output_tokens < 2 or not self.arrivals:
            return None
        return (self.arrivals[-1][0] - self.arrivals[0][0]) / (self.output_tokens - 1)

    def gaps_s(self) -> list[float]:
        """Times between tokens; those that came together share the gap before them evenly."""
        if len(self.arrivals) < 2:
            return []
        moments, tokens = zip(*self.arrivals, strict=True)
        pieces = tokens[1:]
        gaps = np.diff(moments) / np.maximum(pieces, 1)
        spread: list[float] = np.repeat(gaps, np.maximum(pieces, 1)).tolist()
        return spread
