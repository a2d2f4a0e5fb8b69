"""Changes a row's logits by what its request asks: biases, least length, penalties, grammar.

Penalties as in Keskar et al., "CTRL" (2019), section 4.1 (repetition), and the OpenAI API
reference (presence, frequency).
"""

from collections.abc import Sequence

import torch

from weir_worker.sampling.constraint import Constraint
from weir_worker.sampling.state import SamplingState

# Dividing by less, or multiplying with it, would make infinities and NaN of sound logits.
_LEAST_REPETITION_PENALTY = 1e-6
_BITS = torch.arange(8, dtype=torch.uint8)


def adjusted(logits: torch.Tensor, states: Sequence[SamplingState]) -> torch.Tensor:
    """Return the logits to draw from; the given ones stay as they are.

    Args:
        logits: fp32 [rows, vocabulary].
        states: [rows]; read, not changed.
    """
    rows = [row for row, state in enumerate(states) if state.adjusts]
    if not rows:
        return logits
    changed = logits.clone()
    for row in rows:
        _adjust(changed[row], states[row])
    return changed


def _adjust(logits: torch.Tensor, state: SamplingState) -> None:
    params = state.params
    if params.logit_bias:
        ids = _ids(logits, params.logit_bias)
        logits[ids] += _values(logits, params.logit_bias.values())
    if state.drawn < params.min_tokens:
        logits[_ids(logits, state.stop_ids)] = float("-inf")
    if params.repetition_penalty != 1.0:
        ids = _ids(logits, sorted(state.prompt | state.counts.keys()))
        seen = logits[ids]
        penalty = max(params.repetition_penalty, _LEAST_REPETITION_PENALTY)
        logits[ids] = torch.where(seen > 0, seen / penalty, seen * penalty)
    if state.counts and (params.presence_penalty or params.frequency_penalty):
        ids = _ids(logits, state.counts)
        times = _values(logits, state.counts.values())
        logits[ids] -= params.presence_penalty + params.frequency_penalty * times
    if state.constraint is not None:
        _constrain(logits, state.constraint)


def _constrain(logits: torch.Tensor, constraint: Constraint) -> None:
    """Leave the allowed tokens alone; none of them if the constraint cannot tell."""
    mask = constraint.allowed()
    size = len(logits)
    allowed = torch.zeros(size, dtype=torch.bool)
    if mask:
        octets = torch.frombuffer(bytearray(mask), dtype=torch.uint8)
        bits = octets.unsqueeze(1).bitwise_right_shift(_BITS).bitwise_and(1).flatten()[:size]
        allowed[: len(bits)] = bits.bool()
    logits.masked_fill_(~allowed.to(logits.device), float("-inf"))


def _ids(like: torch.Tensor, ids: object) -> torch.Tensor:
    return torch.tensor(list(ids), dtype=torch.int64, device=like.device)  # type: ignore[call-overload]


def _values(like: torch.Tensor, values: object) -> torch.Tensor:
    return torch.tensor(list(values), dtype=like.dtype, device=like.device)  # type: ignore[call-overload]
