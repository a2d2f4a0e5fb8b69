"""Prompts have become longer."""

from weir_cli.doctor.cause import percent
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.statistics import median
from weir_cli.doctor.tokens_for_each import TokensForEach

LONGER = 1.25
"""Prompt tokens for each output token; less moves throughput by less than it varies anyway."""


class LongPrompts:
    """More prompt tokens are computed for each answer."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        before, after = TokensForEach.of(evidence.baseline), TokensForEach.of(evidence.recent)
        share = excess.share(Part.PROMPTS)
        ratios = [one.prompt / max(1.0, one.output) for one in (before, after)]
        longer = after.prompt >= LONGER * before.prompt or ratios[1] >= LONGER * ratios[0]
        if not share or not longer:
            return None
        old, new = (
            window.values("prompt_length") for window in (evidence.baseline, evidence.recent)
        )
        return Finding(
            cause="long_prompts",
            symptom=excess.symptom,
            share=share,
            subject=evidence.recent.model,
            evidence=(
                f"prompts have {after.prompt:.0f} tokens on average, {before.prompt:.0f} before "
                f"(median {median(new):.0f}, before {median(old):.0f})",
                f"{ratios[1]:.1f} prompt tokens for each output token, {ratios[0]:.1f} before; "
                f"{percent(after.hits)} of them come from the cache, {percent(before.hits)} before",
            ),
            remedy=(
                "keep long prompts apart: `long_context_threshold` and `max_running_long` of the "
                "model's parameters, or a pool of their own; a `context_tokens` limit of plans; "
                "register common beginnings as prefixes (`weir prefixes`); or add workers"
            ),
        )
