"""Takes a Hugging Face folder into the cache, once it is found sound."""

import shutil
import tempfile
from pathlib import Path

from weir_core.model_folder import ModelFileError
from weir_worker.models.check import check_model
from weir_worker.models.convert import folder_lock

_WANTED = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "*.safetensors",
    "model.safetensors.index.json",
    "LICENSE*",
)


def copy_folder(source: Path, target: Path) -> Path:
    """Copy what a model needs, and nothing else, whole or not at all; replaces `target`.

    Raises:
        ModelFileError: the model cannot be served, or `target` cannot be written.
    """
    source = source.resolve()
    if source == target.resolve():
        return target
    check_model(source)
    with folder_lock(target), tempfile.TemporaryDirectory(dir=target.parent, prefix=".copy.") as at:
        draft = Path(at) / target.name
        try:
            draft.mkdir()
            for pattern in _WANTED:
                for path in sorted(source.glob(pattern)):
                    shutil.copyfile(path, draft / path.name)
            if target.exists():
                shutil.rmtree(target)
            draft.rename(target)
        except OSError as error:
            raise ModelFileError(target, f"cannot be written: {error.strerror}") from error
    return target
