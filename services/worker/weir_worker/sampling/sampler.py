"""Draws one token a row from logits, each row independent of its batch-mates."""

import math
from collections import defaultdict
from collections.abc import Sequence

import torch

from weir_worker.sampling.adjust import adjusted
from weir_worker.sampling.inversion import invert, invert_wide
from weir_worker.sampling.logprobs import logprobs_of
from weir_worker.sampling.samples import Samples
from weir_worker.sampling.state import SamplingState

# Likeliest tokens looked at for top_p alone; widened for a row whose mass does not suffice.
_NUCLEUS_WIDTH = 256
_WIDENING = 16


def sample(logits: torch.Tensor, states: Sequence[SamplingState]) -> Samples:
    """Choose the next token of every row.

    Nothing here is computed across rows, and the width of a row's preselection depends on
    its own parameters and probabilities, so its token is the same alone and in any batch.

    Args:
        logits: fp32 [rows, vocabulary].
        states: [rows]; read, not changed.
    """
    given, logits = logits, adjusted(logits, states)
    peaks, likeliest = _likeliest(logits)
    samples = Samples(likeliest)
    # max() passes NaN on, so one look at the peaks finds every unusable row.
    if not torch.isfinite(peaks).all():
        usable = torch.isfinite(peaks).tolist()
        samples.failures = {
            row: states[row].problem or "the model's logits are not finite"
            for row, good in enumerate(usable)
            if not good
        }
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for row, state in enumerate(states):
        if not state.greedy and row not in samples.failures:
            groups[_preselection(state, logits.shape[1])].append(row)
    for width, rows in groups.items():
        _draw_group(logits, peaks, states, width, rows, samples)
    samples.logprobs = logprobs_of(given, states, samples.tokens)
    return samples


def _likeliest(logits: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """The largest logit of each row and its first token; NaN is the largest of all."""
    if logits.device.type == "cpu":  # where torch's own takes ten times as long
        tokens = logits.detach().numpy().argmax(axis=1)
        return logits[torch.arange(len(tokens)), torch.from_numpy(tokens)], tokens.tolist()
    peaks, likeliest = logits.max(dim=-1)
    return peaks, likeliest.tolist()


def _preselection(state: SamplingState, vocabulary: int) -> int:
    """Return how many of the likeliest tokens a row needs, 0 for all in vocabulary order."""
    if state.params.top_k > 0:
        return min(1 << (state.params.top_k - 1).bit_length(), vocabulary)
    return min(_NUCLEUS_WIDTH, vocabulary) if state.params.top_p < 1.0 else 0


def _draw_group(
    logits: torch.Tensor,
    peaks: torch.Tensor,
    states: Sequence[SamplingState],
    width: int,
    rows: list[int],
    samples: Samples,
) -> None:
    try:
        chosen = _draw(logits[rows], peaks[rows], [states[row] for row in rows], width)
    except Exception as error:
        if len(rows) == 1:
            samples.failures[rows[0]] = f"sampling failed: {type(error).__name__}"
            return
        for row in rows:
            _draw_group(logits, peaks, states, width, [row], samples)
        return
    for row, token in zip(rows, chosen, strict=True):
        samples.tokens[row] = token


def _draw(
    logits: torch.Tensor, peaks: torch.Tensor, states: Sequence[SamplingState], width: int
) -> list[int]:
    temperatures = _column(logits, [state.temperature for state in states])
    uniforms = _column(logits, [state.uniform() for state in states], torch.float64)
    # The peak goes first: dividing large logits by a small temperature would overflow.
    scaled = (logits - peaks.unsqueeze(1)) / temperatures
    if any(state.params.min_p for state in states):
        # The likeliest has 0 here, so that a part of it is a difference.
        floors = _column(logits, [_log(state.params.min_p) for state in states])
        scaled = scaled.masked_fill(scaled < floors, float("-inf"))
    if width == 0:
        return invert_wide(scaled.exp_(), uniforms).tolist()
    top_p = _column(logits, [state.params.top_p for state in states], torch.float64)
    top_k = [state.params.top_k for state in states]
    if max(top_k) > 0:
        return _draw_top_k(scaled, uniforms, top_p, top_k, width)
    return _draw_top_p(scaled.softmax(dim=-1), uniforms, top_p, width)


def _log(part: float) -> float:
    return math.log(part) if part else -math.inf


def _draw_top_k(
    scaled: torch.Tensor,
    uniforms: torch.Tensor,
    top_p: torch.Tensor,
    top_k: list[int],
    width: int,
) -> list[int]:
    values, tokens = scaled.topk(width, dim=-1)
    ranks = torch.arange(width, device=scaled.device)
    beyond = ranks >= _column(scaled, top_k, torch.int64)
    probabilities = values.masked_fill(beyond, float("-inf")).softmax(dim=-1).double()
    kept, _ = _nucleus(probabilities, top_p)
    return tokens.gather(1, invert(kept, uniforms).unsqueeze(1)).squeeze(1).tolist()


def _draw_top_p(
    probabilities: torch.Tensor, uniforms: torch.Tensor, top_p: torch.Tensor, width: int
) -> list[int]:
    values, tokens = probabilities.topk(width, dim=-1)
    kept, mass = _nucleus(values.double(), top_p)
    chosen = tokens.gather(1, invert(kept, uniforms).unsqueeze(1)).squeeze(1).tolist()
    vocabulary = probabilities.shape[1]
    if width == vocabulary:
        return chosen
    short = (mass < top_p).squeeze(1).nonzero().squeeze(1).tolist()
    wider = min(width * _WIDENING, vocabulary)
    for row in short:
        only = slice(row, row + 1)
        chosen[row] = _draw_top_p(probabilities[only], uniforms[only], top_p[only], wider)[0]
    return chosen


def _nucleus(probabilities: torch.Tensor, top_p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keep the smallest head of descending probabilities with mass top_p; also the whole mass."""
    cumulative = probabilities.cumsum(dim=-1)
    before = cumulative - probabilities
    return probabilities.masked_fill(before >= top_p, 0.0), cumulative[:, -1:]


def _column(
    like: torch.Tensor, values: Sequence[float], dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=like.device).unsqueeze(1)
