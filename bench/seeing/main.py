"""`make bench-seeing`: what requests cost with nothing seen, by default, and with every trace.

The load is that of `make bench-gateway`: a null worker, all limits on. How far the simulator and
an outside client agree with what is measured is asked of `weir calibrate` and
`bench.outside_client`. Prints progress on stderr and, as its last line on stdout, one JSON object.
"""

import argparse
import asyncio
import json

from bench.samples import Samples, say
from bench.seeing.agreement import Agreement, agreement
from bench.seeing.overhead import overhead_figures
from bench.seeing.turns import FULL, QUICK, measured_in_turn
from bench.seeing.variant import VARIANTS


async def main() -> None:
    """Measures the variants in turn, then asks the others."""
    parser = argparse.ArgumentParser(description="What it costs to see")
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    parser.add_argument(
        "--traces-only", action="store_true", help="no calibration and no outside client"
    )
    args = parser.parse_args()
    samples = await measured_in_turn(QUICK if args.quick else FULL)
    agreed = Agreement() if args.quick or args.traces_only else await agreement(say)
    print(json.dumps(figures_of(samples, agreed) | ({"quick": True} if args.quick else {})))


def figures_of(samples: Samples, agreed: Agreement) -> dict[str, object]:
    """What is printed."""
    return {
        **{f"rps_{variant.name}": samples.median(f"rps {variant.name}") for variant in VARIANTS},
        **overhead_figures(samples),
        **agreed.figures(),
        **{
            f"{figure}_{variant.name}": samples.median(f"{figure} {variant.name}", 3)
            for figure in ("cpu_us", "traces", "spans")
            for variant in VARIANTS
        },
        "runs": samples.runs(),
    }


if __name__ == "__main__":
    asyncio.run(main())
