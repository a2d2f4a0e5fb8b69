"""Which model and which version of it a request gets."""

from weir.directory.v1.directory_pb2 import Model, ModelVersion
from weir_core.directory import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_gateway.caller.caller import Caller
from weir_gateway.intake.version_choice import drawn_versions

_LONGEST_TOLD = 64


def resolve_model(index: DirectoryIndex, caller: Caller, name: str) -> Model:
    """The model of a name or alias.

    Raises:
        WeirError: MODEL_NOT_FOUND, alike for models that do not exist and that the caller may
            not use.
    """
    model = index.model(name)
    if model is None or not caller.may_use(model.name):
        told = name if len(name) <= _LONGEST_TOLD else f"{name[:_LONGEST_TOLD]}..."
        raise WeirError(
            Reason.MODEL_NOT_FOUND,
            f"there is no model {told!r} for this API key; GET /v1/models lists those there are",
            field="model",
        )
    return model


def resolve_versions(model: Model, wanted: str, key: str) -> list[ModelVersion]:
    """The version asked for alone, or those drawn by weight for a key, the first one first.

    Raises:
        WeirError: MODEL_NOT_FOUND, the model has no such version.
    """
    if not wanted:
        return drawn_versions(model, key)
    for version in model.versions:
        if version.version == wanted:
            return [version]
    known = ", ".join(version.version for version in model.versions)
    raise WeirError(
        Reason.MODEL_NOT_FOUND,
        f"model {model.name!r} has no such version; it has {known}",
        field="model_version",
    )
