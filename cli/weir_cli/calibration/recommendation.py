"""Parameters of a worker's batches that follow from what was measured, each with its reason."""

import math
from statistics import fmean, pstdev

from weir_cli.calibration.advice import Advice, Recommendation, advice, up
from weir_cli.calibration.findings import Findings
from weir_cli.calibration.memory_advice import held_tokens, memory_advice, quota_advice
from weir_cli.calibration.settings import default_of
from weir_sim.cost.fitted import ServedCost
from weir_sim.cost.linear import LinearCost

_LEAST_ALPHA, _MOST_ALPHA = 0.3, 1.0
_LEAST_WINDOW_MS, _MOST_WINDOW_MS = 2, 10
_RARE = 0.1
"""Fewer further arrivals in a batch window than this, and waiting for them gains nothing."""
_PREFILL_PART = 0.5
"""Of the target of the first token, that a prompt of the short kind may take alone."""
_ROUND = 16


def recommend(found: Findings, policy: Advice) -> Recommendation:
    """Every value of a worker's batches, from what was measured."""
    alpha = _alpha(found)
    size = _batch_size(found)
    streams = int(size.value) if found.peaked else found.best.streams
    parameters = (
        size,
        _batch_tokens(found, streams, float(alpha.value)),
        _window(found),
        _concurrent(found, streams),
        alpha,
        _step_tokens(found, streams),
        _threshold(found),
    )
    need = held_tokens(found, streams)
    return Recommendation(
        parameters, policy, memory_advice(found, need), (quota_advice(found, need),)
    )


def _batch_size(found: Findings) -> Advice:
    best = found.best
    rates = ", ".join(f"{name} {rate:.2f}/s" for name, rate in best.goodput.items())
    if not found.peaked:
        why = (
            f"goodput still rose at {best.streams} requests at once ({rates}); measure more levels"
        )
        return advice("max_batch_size", max(best.streams, default_of("max_batch_size")), why)
    why = f"goodput peaks at {best.streams} requests at once ({rates})"
    return advice("max_batch_size", best.streams, why)


def _concurrent(found: Findings, streams: int) -> Advice:
    if not found.peaked:
        value = default_of("max_concurrent_requests")
        return advice("max_concurrent_requests", value, "no peak of goodput was reached")
    why = "more would only wait in the worker, where neither weights nor policy order them"
    return advice("max_concurrent_requests", streams, why)


def _batch_tokens(found: Findings, streams: int, alpha: float) -> Advice:
    largest = max(cell.prompt + alpha * cell.output for cell in found.cells)
    worker = found.worker
    wanted = max(math.ceil(streams * largest), worker.max_context)
    most = max(worker.kv_blocks * worker.block_size, worker.max_context)
    value = min(up(wanted, 1024), up(most, 1024))
    why = (
        f"{streams} requests of the largest cell cost {math.ceil(streams * largest)} tokens; at "
        f"least one of the whole context ({worker.max_context}), at most what the KV cache holds "
        f"({worker.kv_blocks * worker.block_size})"
    )
    if not found.peaked:
        value = max(value, int(default_of("max_batch_tokens")))
    return advice("max_batch_tokens", value, why)


def _window(found: Findings) -> Advice:
    default_ms = default_of("batch_wait_ms")
    further = found.mixed_rate * default_ms / 1000
    if further < _RARE:
        why = (
            f"at the peak {found.mixed_rate:.2f} requests arrive a second: {further:.3f} within "
            f"the default window of {default_ms:g} ms, so an idle worker that waits gains nothing"
        )
        return advice("batch_wait_ms", 0, why)
    step_ms = found.served.cost.step * 1e3
    value = int(min(_MOST_WINDOW_MS, max(_LEAST_WINDOW_MS, round(step_ms / 4))))
    why = f"a quarter of the fixed part of a step ({step_ms:.1f} ms), within 2 to 10 ms"
    return advice("batch_wait_ms", value, why)


def _alpha(found: Findings) -> Advice:
    answers = found.answers.answered if found.answers is not None else ()
    if not answers:
        return advice("alpha", default_of("alpha"), "no answer of its own length was measured")
    shares = [one.output_tokens / found.answer_bound for one in answers]
    wanted = fmean(shares) + pstdev(shares) / math.sqrt(len(shares))
    value = round(min(_MOST_ALPHA, max(_LEAST_ALPHA, wanted)), 2)
    why = (
        f"{len(shares)} everyday answers used {fmean(shares):.0%} of max_new_tokens "
        f"({found.answer_bound}) on average; one standard error above, within 0.3 to 1"
    )
    return advice("alpha", value, why)


def _step_tokens(found: Findings, streams: int) -> Advice:
    worker, cost = found.worker, found.served.cost
    if not found.peaked:
        why = "no peak of goodput was reached: what a full batch leaves is not known"
        return advice("max_step_tokens", worker.max_step_tokens, why)
    target_ms = found.targets.itl_ms or found.targets.tpot_ms
    if target_ms is None:
        return advice("max_step_tokens", worker.max_step_tokens, "no target between tokens")
    if not cost.prefill_token > 0:
        why = "prompt tokens add nothing to a step that the probes could tell"
        return advice("max_step_tokens", worker.max_step_tokens, why)
    left_s = target_ms / 1e3 - _decode_step_s(found, streams, cost)
    room = int(left_s / cost.prefill_token) + streams
    least = up(streams + _ROUND, _ROUND)
    value = max(least, min(worker.max_step_tokens, room // _ROUND * _ROUND))
    why = (
        f"a step with {streams} decodes leaves {left_s * 1e3:.0f} ms of the target of "
        f"{target_ms:g} ms, {cost.prefill_token * 1e3:.3f} ms a prompt token; within {least} and "
        f"the worker's own {worker.max_step_tokens}"
    )
    return advice("max_step_tokens", min(value, worker.max_step_tokens), why)


def _decode_step_s(found: Findings, streams: int, cost: LinearCost) -> float:
    context = fmean(cell.prompt + cell.output / 2 for cell in found.cells) * streams
    return cost.step_s(0, 0, streams, round(context))


def _threshold(found: Findings) -> Advice:
    worker = found.worker
    target_ms = found.targets.ttft_ms
    if target_ms is None:
        value = min(worker.max_context, int(default_of("long_context_threshold")))
        return advice("long_context_threshold", value, "no target of the first token")
    longest = _longest_prompt(found, target_ms / 1e3 * _PREFILL_PART)
    value = max(_ROUND, min(worker.max_context, longest // _ROUND * _ROUND))
    why = (
        f"the longest prompt whose first token comes within half of the target of "
        f"{target_ms:g} ms when it is alone"
    )
    return advice("long_context_threshold", value, why)


def _longest_prompt(found: Findings, within_s: float) -> int:
    """By bisection: a prompt takes longer the longer it is."""
    low, high = 0, found.worker.max_context
    while low < high:
        middle = (low + high + 1) // 2
        if lone_ttft_s(found.served, middle, found.worker.max_step_tokens) <= within_s:
            low = middle
        else:
            high = middle - 1
    return low


def lone_ttft_s(served: ServedCost, prompt: int, max_step_tokens: int) -> float:
    """Predicted time to the first token of a prompt that is alone."""
    cost = served.cost
    steps = math.ceil(prompt / max_step_tokens)
    positions = prompt * (prompt + 1) / 2
    computed = cost.prefill_token * prompt + cost.prefill_position * positions
    return served.request_s + cost.step * steps + computed
