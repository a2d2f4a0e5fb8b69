"""What the interactive answers of a tenant should take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SloTargets:
    """Targets of one tenant; 0 sets none.

    Attributes:
        ttft_us: arrival at a gateway to first token.
        itl_us: mean time between two tokens of one answer.
        e2e_us: arrival at a gateway to the end.
        attainment_millis: share of requests that should keep a target, thousandths.
        shed: refuse at once what would not see its first token within `ttft_us`.
    """

    ttft_us: int = 0
    itl_us: int = 0
    e2e_us: int = 0
    attainment_millis: int = 950
    shed: bool = False
