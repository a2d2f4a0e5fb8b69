"""Small files in each published format; their values are made up."""

from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "data" / "traces"
BY_FORMAT = {
    "azure": SAMPLES / "azure.csv",
    "mooncake": SAMPLES / "mooncake.jsonl",
    "servegen": SAMPLES / "demo.arrivals.csv",
    "vtc-arena": SAMPLES / "arena.csv",
    "ssjf": SAMPLES / "ssjf.csv",
    "vidur": SAMPLES / "vidur.csv",
    "sharegpt": SAMPLES / "sharegpt.csv",
}
