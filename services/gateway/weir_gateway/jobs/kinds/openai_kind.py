"""Jobs whose body is a chat completion's or a completion's, and whose result is its answer."""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.jobs.job import Job
from weir_gateway.jobs.kinds.offline import offline
from weir_gateway.openai.dialect import AnswerForm, OpenAiDialect
from weir_gateway.openai.json_body import parse_object


class OpenAiKind:
    """`POST /v1/chat/completions`, or else `POST /v1/completions`, offline."""

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat
        self._dialect = OpenAiDialect(chat=chat)

    def parse(self, body: bytes) -> GenerationRequest:
        """The request of a body. Raises WeirError."""
        return offline(self._dialect.parse(parse_object(body)).request)

    def recorder(self, job: Job, live: LiveRequest) -> "OpenAiRecorder":
        """Of one attempt."""
        request = self._dialect.parse(parse_object(job.body))
        request = replace(request, request=offline(request.request))
        return OpenAiRecorder(self._dialect.form(live, request))

    def text(self, result: bytes) -> str:
        """The text of the first answer."""
        choice = orjson.loads(result)["choices"][0]
        return str((choice["message"]["content"] if self._chat else choice["text"]) or "")


class OpenAiRecorder:
    """Keeps the body of the answer."""

    def __init__(self, form: AnswerForm) -> None:
        self._form = form
        self._pieces: list[Piece] = []

    async def pieces(self, pieces: Sequence[Piece]) -> None:
        """New text."""
        self._pieces.extend(pieces)

    async def finish(self, ending: Ending) -> bytes:
        """The JSON of the answer."""
        return self._form.whole(self._pieces, ending)
