"""An outside client beside ours: the same loads on the same stack, in turn.

python -m bench.outside_client [--null] [--runs 3] [--rate 0.6] [--requests 15]

Prints progress on stderr and, as its last line on stdout, one JSON object: `outside_client_error`
is the larger relative difference of the mean time to the first token and of output tokens per
second; `outside_client_spread` the larger spread of our own runs. Null where AIPerf is not there.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.deployment import deployment
from bench.peers.peer_process import PeerFailed
from bench.peers.run_aiperf import Door, Told, run_aiperf, write_load
from bench.samples import say
from weir_cli.load.arrivals import Arrivals
from weir_cli.load.figures import load_figures
from weir_cli.load.goodput import Targets
from weir_cli.load.http_target import Endpoint, HttpTarget
from weir_cli.load.lengths import Law, Lengths
from weir_cli.load.load_plan import LoadSize, drawn_plan
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.open_loop import OpenLoop
from weir_cli.load.prompts import Prompts, TextPrompts, read_tokenizer
from weir_cli.load.target import Asked
from weir_cli.stack.served_model import choose_model

ALLOWED = 0.05
_TENANT = "bench"
_PROMPT, _OUTPUT = 128, 32
_ANSWER_S = 120.0


@dataclass(frozen=True, slots=True)
class Outside:
    """Both clients, run by run.

    Attributes:
        ours, theirs: what each reports.
    """

    ours: tuple[Told, ...]
    theirs: tuple[Told, ...]

    @property
    def error(self) -> float:
        """The larger relative difference."""
        return max(self._difference("ttft_s"), self._difference("output_tokens_s"))

    @property
    def spread(self) -> float:
        """The larger spread of our own runs, over their median."""
        return max(_spread(self.ours, name) for name in ("ttft_s", "output_tokens_s"))

    @property
    def agrees(self) -> bool:
        """Within 5 %, or twice the spread."""
        return self.error <= max(ALLOWED, 2 * self.spread)

    def figures(self) -> dict[str, Any]:
        """As printed."""
        return {
            "outside_client_error": round(self.error, 4),
            "outside_client_spread": round(self.spread, 4),
            "agrees": self.agrees,
            "ttft_ms": {name: _medians_ms(told) for name, told in self._both().items()},
            "tokens_s": {
                name: round(median(one.output_tokens_s for one in told), 2)
                for name, told in self._both().items()
            },
        }

    def _both(self) -> dict[str, tuple[Told, ...]]:
        return {"ours": self.ours, "aiperf": self.theirs}

    def _difference(self, name: str) -> float:
        """Of the median of the turns' ratios: two turns that follow each other share a machine."""
        ratios = [
            getattr(theirs, name) / getattr(ours, name)
            for ours, theirs in zip(self.ours, self.theirs, strict=True)
        ]
        return float(abs(median(ratios) - 1))


def _medians_ms(told: Sequence[Told]) -> float:
    return round(median(one.ttft_s for one in told) * 1e3, 1)


def _spread(told: Sequence[Told], name: str) -> float:
    values = [getattr(one, name) for one in told]
    return float((max(values) - min(values)) / median(values))


async def measure_outside(
    *, null: bool, runs: int, rate: float, requests: int, tell: Callable[[str], None] = say
) -> Outside:
    """Both clients in turn on a stack of its own. Raises PeerFailed."""
    model = await choose_model(None, null, tell)
    tokenizer = read_tokenizer(model.folder)
    ours: list[Told] = []
    theirs: list[Told] = []
    load = drawn_plan(
        Arrivals(rate),
        [(Lengths(Law.FIXED, _PROMPT), Lengths(Law.FIXED, _OUTPUT))],
        (_TENANT,),
        LoadSize(requests),
        seed=3,
    )
    with TemporaryDirectory(prefix="weir-outside-") as folder:
        async with deployment(null=null) as (stack, _):
            welcome = stack.welcome
            door = Door(f"http://{welcome.http}", welcome.key, welcome.model, model.folder)
            await _our_turn(door, load[:3], TextPrompts(1, tokenizer))
            for run in range(runs):
                # Prompts of every turn are its own: neither client finds the other's cached.
                ours.append(await _our_turn(door, load, TextPrompts(10 + run, tokenizer)))
                tell(f"run {run + 1}, ours: {_text(ours[-1])}")
                prompts = TextPrompts(1_000 + run, tokenizer)
                theirs.append(await _their_turn(door, load, prompts, Path(folder, str(run))))
                tell(f"run {run + 1}, aiperf: {_text(theirs[-1])}")
    return Outside(tuple(ours), tuple(theirs))


async def _our_turn(door: Door, load: Sequence[LoadRequest], prompts: Prompts) -> Told:
    asked = Asked(door.model, {_TENANT: door.key})
    target = HttpTarget(door.url, Endpoint.COMPLETIONS, asked, _ANSWER_S)
    try:
        offered = await OpenLoop(target, prompts).run(load)
    finally:
        await target.close()
    figures = load_figures(offered, Targets())
    if figures.failures or figures.ttft.mean is None:
        raise RuntimeError(f"our client was not answered in full: {figures.messages}")
    return Told(figures.ttft.mean / 1e3, figures.output_tokens_s, figures.completed)


async def _their_turn(
    door: Door, load: Sequence[LoadRequest], prompts: Prompts, folder: Path
) -> Told:
    folder.mkdir()
    trace = folder / "load.jsonl"
    write_load(trace, load, prompts)
    told = await run_aiperf(door, trace, load[-1].at_s, folder)
    if told.requests != len(load):
        raise PeerFailed(f"aiperf had {told.requests} of {len(load)} requests answered")
    return told


def _text(told: Told) -> str:
    return f"TTFT {told.ttft_s * 1e3:.1f} ms, {told.output_tokens_s:.1f} tokens/s"


async def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="An outside client beside ours")
    parser.add_argument("--null", action="store_true", help="the model that computes nothing")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.6)
    parser.add_argument("--requests", type=int, default=15)
    args = parser.parse_args()
    figures: dict[str, Any] = {"outside_client_error": None, "outside_client_spread": None}
    try:
        found = await measure_outside(
            null=args.null, runs=args.runs, rate=args.rate, requests=args.requests
        )
        figures = found.figures()
    except PeerFailed as error:
        say(f"{error}")
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main())
