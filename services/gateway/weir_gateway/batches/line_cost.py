"""What a request counts as while it waits."""

from weir_gateway.caller.caller import Caller
from weir_gateway.directory.follower import Directory
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.preparer import Preparer
from weir_gateway.intake.routing import resolve_model


class LineCost:
    """Tokens of requests before they are prepared to run."""

    def __init__(self, directory: Directory, preparer: Preparer) -> None:
        self._directory = directory
        self._preparer = preparer

    def model_name(self, caller: Caller, model: str) -> str:
        """The public name of a model or alias. Raises WeirError(MODEL_NOT_FOUND)."""
        return resolve_model(self._directory.required, caller, model).name

    async def tokens(self, caller: Caller, request: GenerationRequest) -> int:
        """Tokens of the prompt and the most of output, of all choices together.

        Raises:
            WeirError: the request is not in order.
        """
        prompt, context = await self._preparer.tokenize(caller, request)
        index = self._directory.required
        name = resolve_model(index, caller, request.model).name
        parameters = index.parameters(name, caller.tenant_id)
        wanted = request.max_new_tokens or parameters.default_max_new_tokens
        length = len(prompt.token_ids)
        most = max(0, min(wanted, parameters.max_new_tokens, context - length))
        return length + most * request.sampling.n
