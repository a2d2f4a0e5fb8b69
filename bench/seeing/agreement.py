"""How far the simulator and an outside client agree with what is measured."""

from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Shares of what was measured; None where it was not.

    Attributes:
        sim_error_p50, sim_error_p95: between the simulator with the fitted model and the engine.
        outside_client_error: between an outside client's figures and ours, the larger one.
        run_to_run_spread: of repeated runs of the same, to hold the others against.
    """

    sim_error_p50: float | None = None
    sim_error_p95: float | None = None
    outside_client_error: float | None = None
    run_to_run_spread: float | None = None

    def figures(self) -> dict[str, float | None]:
        """Under their names."""
        return asdict(self)


async def agreement(say: Callable[[str], None]) -> Agreement:
    """Asks both, which takes minutes."""
    say("neither a calibration nor an outside client is there to ask")
    return Agreement()
