"""Text of tokens that were sampled, made at once or while the next step runs."""

import logging
from dataclasses import dataclass

from weir_core.errors import Reason
from weir_worker.engine.events import Delta, Failure, FinishReason
from weir_worker.engine.sequence import Sequence

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndOfText:
    """A sequence that its text ends: by a stop string, or since no text could be made."""

    sequence: Sequence
    reason: FinishReason
    failure: Failure | None = None


class OwedText:
    """Tokens whose text is still to be made, at most one of each sequence, in order.

    A stop string is found when the text is made. A token that the sequence has sampled by then
    is not its output.
    """

    def __init__(self) -> None:
        self._owed: list[tuple[Sequence, Delta]] = []

    def owe(self, sequence: Sequence, delta: Delta) -> None:
        """Note that the text of a delta is missing."""
        self._owed.append((sequence, delta))

    def settle(self) -> list[EndOfText]:
        """Make all that is owed; returns the sequences that end with it."""
        owed, self._owed = self._owed, []
        ended = []
        for sequence, delta in owed:
            end = say(sequence, delta, None)
            if end is not None:
                ended.append(end)
        return ended


def say(sequence: Sequence, delta: Delta, reason: FinishReason | None) -> EndOfText | None:
    """Make the text of a delta, the newest of its sequence; tell whether it is the last.

    Args:
        sequence: whose delta.
        delta: its text is set.
        reason: why it ends with this token whatever its text is; None: only its text can end it.
    """
    try:
        delta.text, reason = sequence.say(delta.token_ids[0], reason)
    except Exception:
        logger.exception("output failed", extra={"request_id": sequence.request_id})
        failure = Failure(Reason.INTERNAL, "the output could not be turned into text")
        return EndOfText(sequence, FinishReason.ERROR, failure)
    return None if reason is None else EndOfText(sequence, reason)
