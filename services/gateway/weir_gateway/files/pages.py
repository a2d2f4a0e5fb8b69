"""`/v1/files`, in OpenAI's shapes."""

from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.errors.openai import to_http
from weir_core.ids import new_request_id
from weir_gateway.caller.caller import Caller
from weir_gateway.files.bounds import FORM_BYTES, MAX_FILE_BYTES, bounds_of
from weir_gateway.files.content_response import ContentResponse
from weir_gateway.files.file import File
from weir_gateway.files.file_remover import FileRemover
from weir_gateway.files.file_store import FileStore
from weir_gateway.files.upload_body import UploadBody
from weir_gateway.files.upload_form import UploadForm
from weir_gateway.files.uploader import Uploader
from weir_gateway.flow.reception import Reception
from weir_gateway.flow.trail import note_refusal
from weir_gateway.openai.list_json import list_json
from weir_gateway.openai.query import Query
from weir_gateway.openai.unix_time import unix_seconds

_MOST_LISTED = 10_000
_DISCARDED = 2 * MAX_FILE_BYTES


class FilePages:
    """The handlers.

    Args:
        reception: knows who calls.
        store, remover: the files.
        uploader: takes uploads.
        clock: for ids.
        stall_s: an upload of which nothing comes for so long is given up.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        store: FileStore,
        remover: FileRemover,
        uploader: Uploader,
        clock: Clock,
        stall_s: float,
    ) -> None:
        self._reception = reception
        self._store = store
        self._remover = remover
        self._uploader = uploader
        self._clock = clock
        self._stall_s = stall_s

    def routes(self) -> list[Route]:
        """Of the HTTP door."""
        return [
            Route("/v1/files", self.upload, methods=["POST"]),
            Route("/v1/files", self.list_files, methods=["GET"]),
            Route("/v1/files/{file_id}", self.get, methods=["GET"]),
            Route("/v1/files/{file_id}", self.delete, methods=["DELETE"]),
            Route("/v1/files/{file_id}/content", self.content, methods=["GET"]),
        ]

    async def upload(self, request: Request) -> Response:
        """`POST /v1/files`."""
        body = UploadBody(request.receive, stall_s=self._stall_s)
        try:
            file = await self._take(request, body)
        except ClientDisconnect:
            return Response(status_code=499)
        except WeirError as error:
            await body.discard(_DISCARDED if error.wire.http == 413 else FORM_BYTES)
            status, told, headers = to_http(error, note_refusal(error, self._clock))
            if not body.complete:
                headers["connection"] = "close"
            return JSONResponse(told, status_code=status, headers=headers)
        return self._json(file_json(file))

    async def list_files(self, request: Request) -> Response:
        """`GET /v1/files`."""
        caller = self._caller(request)
        query = Query(request.query_params, ("after", "limit", "order", "purpose"))
        limit = query.integer("limit", default=_MOST_LISTED, most=_MOST_LISTED)
        order = query.choice("order", ("asc", "desc"), default="desc")
        found = await self._store.list_files(
            caller.tenant_id,
            after=query.word("after"),
            limit=limit + 1,
            ascending=order == "asc",
            purpose=query.word("purpose"),
        )
        return self._json(list_json([file_json(file) for file in found], limit))

    async def get(self, request: Request) -> Response:
        """`GET /v1/files/{file_id}`."""
        return self._json(file_json(await self._file(request)))

    async def delete(self, request: Request) -> Response:
        """`DELETE /v1/files/{file_id}`."""
        caller = self._caller(request)
        file_id = request.path_params["file_id"]
        await self._remover.remove(caller.tenant_id, file_id)
        return self._json({"id": file_id, "object": "file", "deleted": True})

    async def content(self, request: Request) -> Response:
        """`GET /v1/files/{file_id}/content`."""
        file = await self._file(request)
        headers = {
            "content-length": str(file.size),
            "content-disposition": "attachment",
            "x-content-type-options": "nosniff",
            "x-request-id": new_request_id(self._clock),
        }
        return ContentResponse(self._store.chunks_of(file.id), headers, stall_s=self._stall_s)

    async def _take(self, request: Request, body: UploadBody) -> File:
        caller = self._caller(request)
        announced = request.headers.get("content-length", "0")
        if announced.isascii() and announced.isdigit():
            _check_announced(int(announced))
        form = UploadForm(request.headers.get("content-type", ""))
        bounds = bounds_of(caller.policy.files)
        return await self._uploader.take(caller.tenant_id, bounds, form, body)

    async def _file(self, request: Request) -> File:
        caller = self._caller(request)
        return await self._store.get(caller.tenant_id, request.path_params["file_id"])

    def _caller(self, request: Request) -> Caller:
        return self._reception.let_in(request.headers.get("authorization"))

    def _json(self, body: dict[str, Any]) -> Response:
        return JSONResponse(body, headers={"x-request-id": new_request_id(self._clock)})


def file_json(file: File) -> dict[str, Any]:
    """OpenAI's file object."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": unix_seconds(file.created_ms),
        "expires_at": unix_seconds(file.expires_ms),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def _check_announced(size: int) -> None:
    if size > MAX_FILE_BYTES + FORM_BYTES:
        raise WeirError(
            Reason.BODY_TOO_LARGE,
            f"the upload has {size} bytes; a file of at most {MAX_FILE_BYTES} is taken; split it",
            field="file",
        )
