"""Distance of the int8 mode from fp32, over five texts: `python -m bench.int8_quality`.

Prints a table and, as its last line, the figures `int8_kl` and `int8_top1` of the worst text.
Both forms are of the same weights, so this measures rounding and not the model. With
`--record` the shipped record of the default model is renewed.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch

from weir_worker.kernels.choice import KernelsMode, load_kernels
from weir_worker.models import int8_record
from weir_worker.models.fetch import ensure_default_model
from weir_worker.models.int8_check import measure, read_texts, table
from weir_worker.models.int8_record import Int8Record

TEXTS = Path(__file__).parent / "texts"


def int8_quality(folder: Path | None = None, kernels: KernelsMode = "off") -> Int8Record:
    """Measure a model folder, the default model's by default; about a minute of two cores."""
    chosen = folder or ensure_default_model()
    return measure(chosen, read_texts(TEXTS), kernels=load_kernels(kernels))


def figures(record: Int8Record) -> dict[str, float]:
    """As the contract of figures names them."""
    return {"int8_kl": record.kl, "int8_top1": record.top1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="model folder; the default model's by default")
    parser.add_argument("--kernels", choices=("auto", "off", "required"), default="off")
    parser.add_argument("--record", action="store_true", help="renew the shipped record")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    record = int8_quality(arguments.model, arguments.kernels)
    print(table(record))
    if arguments.record:
        _ship(record)
    print(json.dumps(figures(record)))


def _ship(record: Int8Record) -> None:
    path = int8_record.SHIPPED
    key = (record.weights_sha256, record.method)
    kept = [
        each
        for each in json.loads(path.read_text())
        if (each["weights_sha256"], each["method"]) != key
    ]
    path.write_text(json.dumps([*kept, asdict(record)], indent=1) + "\n")


if __name__ == "__main__":
    main()
