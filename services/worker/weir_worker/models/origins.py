"""Which tensor of a GGUF file is which of the model."""

from weir_core.model_folder import ModelFileError
from weir_worker.models.gguf_file import GgufFile
from weir_worker.models.gguf_rope import ROPE_DIVISORS
from weir_worker.models.llama_layout import LlamaLayout


def tensor_origins(file: GgufFile, layout: LlamaLayout) -> dict[str, str]:
    """Hugging Face name -> GGUF name of every tensor.

    Raises:
        ModelFileError: one is missing, is of another shape, or belongs to no such model.
    """
    origins: dict[str, str] = {}
    for info in file.tensors.values():
        if info.name == ROPE_DIVISORS:
            continue
        name = layout.hugging_face_name(info.name)
        expected = layout.shape(name) if name else None
        if name is None or expected is None:
            raise ModelFileError(
                file.path, f"tensor {info.name!r:.120} belongs to no supported model"
            )
        if info.shape != expected:
            raise ModelFileError(
                file.path,
                f"tensor {info.name} has shape {list(info.shape)}; the metadata demand "
                f"{list(expected)}",
            )
        origins[name] = info.name
    missing = [name for name in layout.required() if name not in origins]
    if missing:
        raise ModelFileError(file.path, f"the tensor for {missing[0]} is missing")
    return origins
