"""Parameters of a worker's batches that follow from what was measured, each with its reason."""

import math
from statistics import fmean, pstdev

from weir_cli.calibration.advice import Advice, Recommendation, advice
from weir_cli.calibration.findings import Findings
from weir_cli.calibration.memory_advice import held_tokens, memory_advice, quota_advice
from weir_cli.calibration.predicted_times import lone_ttft_s
from weir_cli.calibration.search_advice import policy_advice, searched_advice
from weir_cli.calibration.settings import ChosenSettings, default_of
from weir_cli.calibration.settings_search import Search
from weir_core.directory.parameters import OF_WORKER

_LEAST_ALPHA, _MOST_ALPHA = 0.3, 1.0
_PREFILL_PART = 0.5
"""Of the target of the first token, that a prompt of the short kind may take alone."""
_ROUND = 16


def unsearched(found: Findings) -> ChosenSettings:
    """Every value that follows from measurements without the simulator's help."""
    made = (_alpha(found), _batch_tokens(found), _concurrent(found), _threshold(found))
    return ChosenSettings({one.name: float(one.value) for one in made}, found.standing.policy)


def recommend(found: Findings, search: Search | None) -> Recommendation:
    """Every value of a worker's batches.

    Args:
        found: what was measured.
        search: what the simulator chose; None: no load keeps the targets.
    """
    size, wait, step = searched_advice(found, search)
    parameters = [
        size, _batch_tokens(found), wait, _concurrent(found), _alpha(found), step,
        _threshold(found),
    ]  # fmt: skip
    if search is None or search.kept:
        parameters = [_in_force(found, one) for one in parameters]
    need = held_tokens(found, search)
    return Recommendation(
        parameters, policy_advice(found, search), memory_advice(found, need),
        (quota_advice(found, need),),
    )  # fmt: skip


def _in_force(found: Findings, made: Advice) -> Advice:
    """The value of before, for what bounds a worker."""
    if made.name not in OF_WORKER:
        return made
    value = found.standing.value(made.name)
    if value == made.value:
        return made
    return advice(made.name, value, "in force now; nothing better was found")


def _concurrent(found: Findings) -> Advice:
    worker = found.worker.max_concurrent_requests
    value = min(worker, default_of("max_concurrent_requests"))
    why = (
        "no worker has more requests than max_batch_size: a larger bound changes nothing, and a "
        f"smaller one would be its bound; at most the worker's own {worker}"
    )
    return advice("max_concurrent_requests", value, why)


def _batch_tokens(found: Findings) -> Advice:
    worker = found.worker
    cache = worker.kv_blocks * worker.block_size
    most = max(cache, worker.max_context)
    value = min(default_of("max_batch_tokens"), most)
    why = (
        f"at most what the KV cache holds ({cache} tokens), so that no batch is begun whose "
        f"requests would then be pre-empted; at least one of the whole context "
        f"({worker.max_context})"
    )
    return advice("max_batch_tokens", max(value, worker.max_context), why)


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
