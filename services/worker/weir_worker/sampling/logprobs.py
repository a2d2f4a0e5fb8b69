"""Log-probabilities of drawn tokens, by the model's own distribution: before any adjustment."""

from collections.abc import Sequence

import torch

from weir_worker.sampling.state import SamplingState
from weir_worker.sampling.token_logprobs import TokenLogprobs

# JSON knows no infinity, and clients of the API expect a number.
LEAST = -9999.0


def logprobs_of(
    logits: torch.Tensor, states: Sequence[SamplingState], tokens: Sequence[int]
) -> dict[int, TokenLogprobs]:
    """Row -> log-probabilities, for the rows whose requests ask for them.

    Args:
        logits: fp32 [rows, vocabulary], as the model gave them.
        states: [rows].
        tokens: [rows], the drawn ones.
    """
    rows = [row for row, state in enumerate(states) if state.params.logprobs is not None]
    if not rows:
        return {}
    # Row by row: what one request is told does not depend on how much another asks for.
    return {
        row: token_logprobs(logits[row], tokens[row], states[row].params.logprobs or 0)
        for row in rows
    }


def token_logprobs(logits: torch.Tensor, token_id: int, top: int) -> TokenLogprobs:
    """Log-probabilities of one token and of the `top` likeliest.

    Args:
        logits: fp32 [vocabulary].
    """
    logprobs = logits.log_softmax(dim=-1).clamp(min=LEAST)
    values, ids = logprobs.topk(min(top, len(logprobs)))
    return TokenLogprobs(float(logprobs[token_id]), ids.tolist(), values.tolist())
