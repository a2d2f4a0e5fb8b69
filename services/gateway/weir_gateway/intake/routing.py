"""Which model and which version of it a request gets."""

import hashlib

from weir.directory.v1.directory_pb2 import Model, ModelVersion
from weir_core.directory import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_gateway.caller.caller import Caller

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


def resolve_version(model: Model, wanted: str, tenant_id: str) -> ModelVersion:
    """The version asked for, or one by weight; the same tenant always gets the same one.

    Raises:
        WeirError: MODEL_NOT_FOUND, the model has no such version.
    """
    if wanted:
        for version in model.versions:
            if version.version == wanted:
                return version
        known = ", ".join(version.version for version in model.versions)
        raise WeirError(
            Reason.MODEL_NOT_FOUND,
            f"model {model.name!r} has no such version; it has {known}",
            field="model_version",
        )
    return _by_weight(model, tenant_id)


def _by_weight(model: Model, tenant_id: str) -> ModelVersion:
    total = sum(version.weight for version in model.versions)
    if len(model.versions) == 1 or total == 0:
        return model.versions[0]
    digest = hashlib.sha256(f"{model.name}\0{tenant_id}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") % total
    for version in model.versions:
        if point < version.weight:
            return version
        point -= version.weight
    raise AssertionError("the weights add up to their total")
