"""A calibration's result for a program."""

from collections.abc import Mapping

from weir_cli.calibration.campaign import CampaignResult


def numbers_of(
    result: CampaignResult, model: str, figures: Mapping[str, float]
) -> dict[str, object]:
    """Everything for a program."""
    cost = result.fit.served.cost
    return {
        "model": model,
        "profile": result.worker.profile,
        "targets_ms": result.targets.given,
        "levels": [
            {"streams": one.streams, "score": one.score, "goodput": dict(one.goodput)}
            for one in result.findings.levels
        ],
        "capacity": result.search and result.search.as_json(),
        "cost_model": {
            "step_s": cost.step,
            "prefill_token_s": cost.prefill_token,
            "prefill_position_s": cost.prefill_position,
            "decode_s": cost.decode,
            "context_token_s": cost.context_token,
            "request_s": result.fit.served.request_s,
            "fit_error": result.fit.error,
        },
        "recommendation": result.recommendation.as_json(),
        "comparison": result.compared and result.compared.as_json(),
        "verdict": result.verdict.value,
        "kept": dict(result.kept.parameters) | {"scheduler_policy": result.kept.policy},
        "agreement": [one.as_json() for one in result.predicted],
        "figures": dict(figures),
    }
