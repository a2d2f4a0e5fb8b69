"""How far the simulator and an outside client agree with what is measured."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.outside_client import measure_outside
from bench.peers.peer_process import PeerFailed
from weir_cli.calibration.calibrate_run import calibrate
from weir_cli.calibration.options import CalibrationOptions
from weir_cli.errors import CommandError


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
    """Asks both, which takes a quarter of an hour; what fails is told and None."""
    found: dict[str, float] = {}
    spreads: list[float] = []
    try:
        simulated = await _simulator()
        spreads.append(simulated.pop("run_to_run_spread"))
        found |= simulated
    except CommandError as error:
        say(f"weir calibrate: {error}")
    try:
        outside = await measure_outside(null=False, runs=3, rate=0.5, requests=15, tell=say)
        spreads.append(outside.spread)
        found["outside_client_error"] = outside.error
    except PeerFailed as error:
        say(f"outside client: {error}")
    return Agreement(**found, run_to_run_spread=max(spreads, default=None))


async def _simulator() -> dict[str, float]:
    """Errors and spread of `weir calibrate` on the default model. Raises CommandError."""
    with TemporaryDirectory(prefix="weir-bench-calibrate-") as folder:
        options = CalibrationOptions(out=Path(folder, "out"), home=Path(folder, "home"))
        done = await calibrate(options)
        figures: dict[str, float] = done.numbers["figures"]
        return figures
