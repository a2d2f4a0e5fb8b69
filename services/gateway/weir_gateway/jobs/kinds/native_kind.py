"""Jobs whose body is a serialised `GenerateRequest`, and whose result is text."""

from collections.abc import Sequence

from weir.gateway.v1.inference_service_pb2 import GenerateRequest
from weir_core.errors import InvalidField
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.jobs.job import Job
from weir_gateway.jobs.kinds.offline import offline
from weir_gateway.native.conversion import to_request


class NativeKind:
    """`InferenceService.Generate`, offline."""

    def parse(self, body: bytes) -> GenerationRequest:
        """The request of a body.

        Raises:
            WeirError: also for what the text of a job has no place for.
        """
        request = offline(to_request(GenerateRequest.FromString(body)))
        sampling = request.sampling
        if sampling.n > 1:
            raise InvalidField("sampling.n", sampling.n, "1: a job has one text")
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(sampling, name)
            if value is not None:
                raise InvalidField(
                    f"sampling.{name}", value, "left out; submit the job over HTTP to have them"
                )
        return request

    def recorder(self, job: Job, live: LiveRequest) -> "TextRecorder":
        """Of one attempt."""
        return TextRecorder()

    def text(self, result: bytes) -> str:
        """The text."""
        return result.decode()


class TextRecorder:
    """Keeps the text alone."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    async def pieces(self, pieces: Sequence[Piece]) -> None:
        """New text."""
        self._parts.extend(piece.text for piece in pieces)

    async def finish(self, ending: Ending) -> bytes:
        """The text, UTF-8."""
        return "".join(self._parts).encode()
