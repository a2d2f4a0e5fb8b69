"""One request as a trace tells it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceRow:
    """What a line of a trace says, in common units; what it does not say is None or empty.

    Attributes:
        prompt_tokens: 1 or more.
        output_tokens: 1 or more.
        arrival_s: since the trace's first request.
        client: who asked, in the trace's own words.
        prefix_ids: chained ids of the prompt's full prefix pieces, first one first.
        session: conversation that it is a turn of.
        predicted_output: what a published predictor expected, tokens.
    """

    prompt_tokens: int
    output_tokens: int
    arrival_s: float | None = None
    client: str | None = None
    prefix_ids: tuple[int, ...] = ()
    session: str = ""
    predicted_output: int | None = None
