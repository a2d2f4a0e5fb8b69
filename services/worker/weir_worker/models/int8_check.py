"""Measures a model's 8-bit form: `python -m weir_worker.models.int8_check FOLDER TEXTS`.

The record it leaves in the model folder is what `precision: auto` goes by.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from weir_core.errors import WeirError
from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.kernels.choice import load_kernels
from weir_worker.kernels.library import Kernels
from weir_worker.models.agreement import agreement
from weir_worker.models.int8_record import MAX_KL, MIN_TOP1, Int8Record, weights_digest
from weir_worker.models.loader import load_model

TOKENS = 600


def measure(
    folder: Path, texts: Mapping[str, str], *, kernels: Kernels | None = None, tokens: int = TOKENS
) -> Int8Record:
    """Compare the 8-bit form with the fp32 form over the first tokens of each text.

    Raises:
        ModelFileError: the folder is no model's, or a text is too short.
        InvalidField: the model has no 8-bit form.
    """
    encoded = _encoded(folder, texts, tokens)
    reference = load_model(folder)
    model = load_model(folder, precision="int8", kernels=kernels)
    if model.int8_method is None:
        raise ModelFileError(folder, "has no 8-bit form here: torch has no FBGEMM")
    found = {name: agreement(reference, model, ids) for name, ids in encoded.items()}
    return Int8Record(
        weights_sha256=weights_digest(folder),
        method=model.int8_method,
        tokens=tokens,
        texts={name: (round(each.kl, 5), round(each.top1, 4)) for name, each in found.items()},
    )


def read_texts(folder: Path) -> dict[str, str]:
    """The texts of a folder by the stem of their names.

    Raises:
        ModelFileError: there are none.
    """
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))}
    if not texts:
        raise ModelFileError(folder, "holds no .txt files")
    return texts


def table(record: Int8Record) -> str:
    """The figures for people."""
    rows = [f"{'text':20} {'KL':>8} {'top-1':>7}"]
    rows += [f"{name:20} {kl:8.4f} {top1:7.3f}" for name, (kl, top1) in record.texts.items()]
    rows.append(f"{'worst':20} {record.kl:8.4f} {record.top1:7.3f}")
    verdict = "good" if record.good else "not good"
    bounds = f"KL at most {MAX_KL}, top-1 at least {MIN_TOP1}"
    return "\n".join([*rows, f"{record.method}: {verdict} enough for precision auto ({bounds})"])


def _encoded(folder: Path, texts: Mapping[str, str], tokens: int) -> dict[str, list[int]]:
    tokenizer = ModelFolder(folder).load_tokenizer()
    encoded = {}
    for name, text in texts.items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) < tokens:
            raise ModelFileError(folder, f"text {name} has {len(ids)} tokens; at least {tokens}")
        encoded[name] = ids[:tokens]
    return encoded


def main() -> int:
    """Print the table and keep the record; exit code 1 where the quality is not enough."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="model folder")
    parser.add_argument("texts", type=Path, help="folder of .txt files, 600 tokens each")
    parser.add_argument("--kernels", choices=("auto", "off", "required"), default="auto")
    arguments = parser.parse_args()
    try:
        record = measure(
            arguments.folder,
            read_texts(arguments.texts),
            kernels=load_kernels(arguments.kernels),
        )
        record.write(arguments.folder)
    except WeirError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return 1
    sys.stdout.write(table(record) + "\n")
    return 0 if record.good else 1


if __name__ == "__main__":
    raise SystemExit(main())
