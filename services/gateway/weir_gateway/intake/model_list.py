"""The models that a caller may use, as callers see them."""

from google.protobuf.timestamp_pb2 import Timestamp

from weir.directory.v1.directory_pb2 import LimitKind, LimitResource, Model
from weir.gateway.v1.inference_service_pb2 import ModelInfo
from weir_core.directory import DirectoryIndex
from weir_gateway.caller.caller import Caller
from weir_gateway.directory.follower import Directory
from weir_gateway.intake.routing import resolve_model


class ModelList:
    """Reads the directory for one caller at a time.

    Args:
        directory: the current version.
        since: creation time of models that have none.
    """

    def __init__(self, directory: Directory, since: Timestamp) -> None:
        self._directory = directory
        self._since = since

    def of(self, caller: Caller) -> list[ModelInfo]:
        """Every model that the caller may use."""
        index = self._directory.required
        models = [model for model in index.models if caller.may_use(model.name)]
        return [self._info(index, caller, model) for model in models]

    def one(self, caller: Caller, name: str) -> ModelInfo:
        """One of them, by name or alias. Raises WeirError(MODEL_NOT_FOUND)."""
        index = self._directory.required
        return self._info(index, caller, resolve_model(index, caller, name))

    def _info(self, index: DirectoryIndex, caller: Caller, model: Model) -> ModelInfo:
        parameters = index.parameters(model.name, caller.tenant_id)
        dated = model.HasField("create_time")
        return ModelInfo(
            name=model.name,
            versions=[version.version for version in model.versions],
            aliases=model.aliases,
            max_context_tokens=_context(index, caller, model),
            default_max_new_tokens=parameters.default_max_new_tokens,
            create_time=model.create_time if dated else self._since,
        )


def _context(index: DirectoryIndex, caller: Caller, model: Model) -> int:
    own = [
        scoped.limit.capacity
        for scoped in index.tenant_limits(caller.tenant_id)
        if scoped.limit.kind == LimitKind.LIMIT_KIND_CONTEXT
        and scoped.limit.resource == LimitResource.LIMIT_RESOURCE_CONTEXT_TOKENS
        and scoped.limit.model in ("", model.name)
        and not scoped.limit.shadow
    ]
    return min([model.max_context_tokens, *own])
