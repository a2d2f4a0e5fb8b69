"""`make bench-gateway`: our gateway beside LiteLLM proxy and SMG (figures: bench/README.md).

Prints progress on stderr and, as its last line on stdout, one JSON object.
"""

import argparse
import asyncio
import json
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.deployment import deployment
from bench.gateway.second_gateway import second_gateway
from bench.gateway.target import Measured, MeasurementFailed, Target, measure
from bench.peers.gateways import litellm_proxy, smg, upstream
from bench.peers.peer_process import PeerFailed
from bench.samples import Samples, say

OURS, OURS_2, LITELLM, SMG = "ours", "ours_2", "litellm", "smg"
_FIGURES = ("rps", "p50_ms", "p99_ms", "p50_alone_ms", "tokens_s", "events_s", "tokens_s_512")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        runs: of everything.
        seconds: of a run of 16 clients.
        alone_s: of a run of one client.
        warm_s: of what is not counted, before all.
    """

    runs: int
    seconds: float
    alone_s: float
    warm_s: float


_FULL = Effort(runs=3, seconds=6.0, alone_s=3.0, warm_s=3.0)
_QUICK = Effort(runs=1, seconds=1.0, alone_s=0.5, warm_s=0.5)
_CLIENTS = 16
_STREAMED = 64
_STREAMED_LONG = 512
_STEP_US = 500
"""Of the null worker: 16 streams have 32,000 tokens/s at most."""
_NULL_TOKEN_CHARACTERS = 1


async def main() -> None:
    """Measures what there is, in turn."""
    parser = argparse.ArgumentParser(description="Our gateway beside others")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    parser.add_argument(
        "--window-ms",
        type=int,
        default=0,
        help="our batch_wait_ms, which the others have nothing of: 0, or 2 to 10",
    )
    args = parser.parse_args()
    quick: bool = args.quick
    with TemporaryDirectory(prefix="weir-bench-gateways-") as folder:
        effort = _QUICK if quick else _FULL
        samples = await _measure_all(Path(folder), effort, args.window_ms)
    figures = figures_of(samples)
    told = {"window_ms": args.window_ms} | ({"quick": True} if quick else {})
    print(json.dumps(figures | told))


async def _measure_all(folder: Path, effort: Effort, window_ms: int) -> Samples:
    samples = Samples()
    async with AsyncExitStack() as running:
        targets = await _targets(folder, running, window_ms)
        for target in targets:
            await _run(target, Samples(), effort.warm_s, effort.warm_s)
        for number in range(effort.runs):
            for target in targets:
                await _run(target, samples, effort.seconds, effort.alone_s)
                told = [f"{name} {samples.median(f'{target.name} {name}')}" for name in _FIGURES]
                say(f"run {number + 1}, {target.name}, medians so far: {', '.join(told)}")
    return samples


async def _targets(folder: Path, running: AsyncExitStack, window_ms: int) -> list[Target]:
    """Everything that starts, ours first."""
    os.environ["WEIR_WORKER__NULL_STEP_US"] = str(_STEP_US)
    ours = deployment(null=True, parameters={"batch_wait_ms": window_ms})
    stack, _ = await running.enter_async_context(ours)
    welcome = stack.welcome
    other = await running.enter_async_context(second_gateway(stack))
    urls = [f"http://{address}/v1/chat/completions" for address in (welcome.http, other)]
    caller = (welcome.key, welcome.model, _NULL_TOKEN_CHARACTERS)
    targets = [Target(OURS, urls[:1], *caller)]
    engine = await running.enter_async_context(upstream(folder))
    for open_peer in (litellm_proxy, smg):
        try:
            peer = await running.enter_async_context(open_peer(engine, folder))
        except PeerFailed as error:
            say(f"peer {open_peer.__name__}: {error}")
        else:
            targets.append(peer)
    return [*targets, Target(OURS_2, urls, *caller)]


async def _run(target: Target, samples: Samples, seconds: float, alone_s: float) -> None:
    """Answers of one token, to 16 clients and to one; then 16 streams, short and long ones.

    What fails is told, and its figures are left out.
    """
    whole = await _measured(target, _CLIENTS, seconds, 1, stream=False)
    alone = await _measured(target, 1, alone_s, 1, stream=False)
    short = await _measured(target, _CLIENTS, seconds, _STREAMED, stream=True)
    long = await _measured(target, _CLIENTS, alone_s, _STREAMED_LONG, stream=True)
    found: dict[str, float] = {}
    if whole is not None:
        found |= {"rps": whole.rps, "p50_ms": whole.p50_ms, "p99_ms": whole.p99_ms}
    if alone is not None:
        found["p50_alone_ms"] = alone.p50_ms
    if short is not None:
        found |= {"tokens_s": short.tokens_s, "events_s": short.events_s}
    if long is not None:
        found["tokens_s_512"] = long.tokens_s
    for name, value in found.items():
        samples.add(f"{target.name} {name}", value)


async def _measured(
    target: Target, clients: int, seconds: float, tokens: int, *, stream: bool
) -> Measured | None:
    try:
        return await measure(target, clients=clients, seconds=seconds, tokens=tokens, stream=stream)
    except MeasurementFailed as error:
        say(f"{error}")
        return None


def figures_of(samples: Samples) -> dict[str, object]:
    """What is printed: figures of ours, of the peers, and their ratios."""

    def of(target: str, *names: str) -> dict[str, float | None]:
        return {name: samples.median(f"{target} {name}") for name in names}

    def ratio(figure: str, peer: str) -> float | None:
        return samples.ratio(f"{OURS} {figure}", f"{peer} {figure}")

    two = of(OURS_2, "rps", "tokens_s")
    peers = {peer: of(peer, *_FIGURES) for peer in (LITELLM, SMG)}
    return {
        **of(OURS, *_FIGURES),
        "rps_2": two["rps"],
        "tokens_s_2": two["tokens_s"],
        **{peer: known if any(known.values()) else None for peer, known in peers.items()},
        "ratio_rps": ratio("rps", LITELLM),
        "ratio_tokens_s": ratio("tokens_s", LITELLM),
        "ratio_p50": ratio("p50_ms", LITELLM),
        "ratio_p50_alone": ratio("p50_alone_ms", LITELLM),
        "ratio_tokens_s_512": ratio("tokens_s_512", LITELLM),
        "ratio_rps_smg": ratio("rps", SMG),
        "ratio_tokens_s_smg": ratio("tokens_s", SMG),
        "ratio_tokens_s_512_smg": ratio("tokens_s_512", SMG),
        "runs": samples.runs(),
    }


if __name__ == "__main__":
    asyncio.run(main())
