"""What a calibration measures, and for how long."""

from dataclasses import dataclass

_PROBE_SHARE, _GRID_SHARE, _SEARCH_SHARE, _COMPARE_SHARE, _HELD_OUT_SHARE = (
    0.13, 0.41, 0.06, 0.24, 0.16
)  # fmt: skip
_ROUNDS = 4
_HELD_OUT_RUNS = 3
_REQUESTS_OF_STREAM = 6
_FEWEST, _MANY, _MOST = 30, 100, 600
_SECONDS_OF_REQUEST = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """A kind of request.

    Attributes:
        name: such as `long-short`: long prompt, short answer.
        prompt, output: tokens.
    """

    name: str
    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """Sizes of everything.

    Attributes:
        inputs, outputs: short and long, tokens.
        levels: requests at once, rising.
        seconds: for all of it.
    """

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    levels: tuple[int, ...]
    seconds: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Short and long prompts by short and long answers."""
        names = ("short", "long")
        return tuple(
            Cell(f"{prompt_name}-{output_name}", prompt, output)
            for prompt_name, prompt in zip(names, self.inputs, strict=True)
            for output_name, output in zip(names, self.outputs, strict=True)
        )

    @property
    def prompts(self) -> tuple[int, ...]:
        """Prompt lengths that are measured alone."""
        short, long = self.inputs
        return tuple(sorted({short, (short + long) // 2, long, max(short, long // 4)}))

    @property
    def rounds(self) -> int:
        """Of the comparison; of each of its rates one that begins with either setting."""
        return _ROUNDS

    @property
    def held_out_runs(self) -> int:
        """Of the load that the simulator is held against."""
        return _HELD_OUT_RUNS

    @property
    def simulated_requests(self) -> int:
        """Of each load that settings are tried on: the worker is filled several times."""
        usual = min(_MANY, max(_FEWEST, round(self.seconds / _SECONDS_OF_REQUEST)))
        return min(_MOST, max(usual, _REQUESTS_OF_STREAM * self.levels[-1]))

    @property
    def probe_s(self) -> float:
        """For all probes."""
        return self.seconds * _PROBE_SHARE

    @property
    def grid_s(self) -> float:
        """For all of the grid."""
        return self.seconds * _GRID_SHARE

    @property
    def search_s(self) -> float:
        """For the simulator's part."""
        return self.seconds * _SEARCH_SHARE

    @property
    def turn_s(self) -> float:
        """Of one turn of the comparison, of which each round has two."""
        return self.seconds * _COMPARE_SHARE / (2 * _ROUNDS)

    @property
    def held_out_s(self) -> float:
        """Of one run of the held-out load."""
        return self.seconds * _HELD_OUT_SHARE / _HELD_OUT_RUNS
