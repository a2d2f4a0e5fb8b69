"""Takes an upload into the store while it comes: never more of it than a chunk is in memory."""

import asyncio
from collections import Counter

from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.files.bounds import FORM_BYTES, MAX_FILE_BYTES, FileBounds
from weir_gateway.files.file import File
from weir_gateway.files.file_remover import FileRemover
from weir_gateway.files.file_store import CHUNK_BYTES, FileStore
from weir_gateway.files.upload_body import UploadBody
from weir_gateway.files.upload_fields import read_fields
from weir_gateway.files.upload_form import UploadForm

_log = get_logger(__name__)

_AT_ONCE, _OF_A_TENANT = 64, 16
_LONGEST_S = 3_600.0
_RETRY_S = 2.0
_ABANDON_S = 10.0


class Uploader:
    """See the module."""

    def __init__(self, store: FileStore, remover: FileRemover) -> None:
        self._store = store
        self._remover = remover
        self._running: Counter[str] = Counter()

    async def take(
        self, tenant_id: str, bounds: FileBounds, form: UploadForm, body: UploadBody
    ) -> File:
        """The file of an upload.

        Nothing is left of an upload that fails or is cancelled.

        Raises:
            WeirError: it is not in order, too large, too slow, or one too many.
            ClientDisconnect: the client went away.
        """
        if self._running.total() >= _AT_ONCE:
            raise _too_many(f"{_AT_ONCE} uploads")
        if self._running[tenant_id] >= _OF_A_TENANT:
            raise _too_many(f"{_OF_A_TENANT} uploads of this account")
        self._running[tenant_id] += 1
        try:
            async with asyncio.timeout(_LONGEST_S):
                return await self._take(tenant_id, bounds, form, body)
        except TimeoutError:
            raise WeirError(
                Reason.DEADLINE_EXCEEDED,
                f"the upload was not there after {_LONGEST_S:.0f} s; split the file",
            ) from None
        finally:
            self._running[tenant_id] -= 1
            self._running += Counter()

    async def _take(
        self, tenant_id: str, bounds: FileBounds, form: UploadForm, body: UploadBody
    ) -> File:
        file_id = await self._store.begin(tenant_id, bounds)
        try:
            await self._write(file_id, bounds, form, body)
            form.close()
            fields = read_fields(form.fields)
            return await self._store.finish(
                file_id, name=form.file_name or "", purpose=fields.purpose, ttl_ms=fields.ttl_ms
            )
        except BaseException:
            await asyncio.shield(asyncio.create_task(self._abandon(file_id)))
            raise

    async def _write(
        self, file_id: str, bounds: FileBounds, form: UploadForm, body: UploadBody
    ) -> None:
        chunk = bytearray()
        size = form_size = 0
        async for piece in body.pieces():
            content = form.feed(piece)
            form_size += len(piece) - len(content)
            if form_size > FORM_BYTES:
                raise _bad_form(form_size)
            chunk += content
            while len(chunk) >= CHUNK_BYTES:
                size += CHUNK_BYTES
                _check_size(size)
                await self._store.append(file_id, bytes(chunk[:CHUNK_BYTES]), bounds)
                del chunk[:CHUNK_BYTES]
        _check_size(size + len(chunk))
        if chunk:
            await self._store.append(file_id, bytes(chunk), bounds)

    async def _abandon(self, file_id: str) -> None:
        try:
            async with asyncio.timeout(_ABANDON_S):
                await self._remover.abandon(file_id)
        except (WeirError, TimeoutError):
            # The sweep removes it.
            _log.warning("upload_left_to_sweep", file_id=file_id)


def _too_many(what: str) -> WeirError:
    return WeirError(
        Reason.OVERLOADED,
        f"this gateway takes {what} at once already; send it later",
        retry_after_s=_RETRY_S,
    )


def _bad_form(size: int) -> WeirError:
    return WeirError(
        Reason.BODY_TOO_LARGE,
        f"the upload has {size} bytes or more around its file; at most {FORM_BYTES} are taken",
        field="body",
    )


def _check_size(size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise WeirError(
            Reason.BODY_TOO_LARGE,
            f"the file has {size} bytes or more; at most {MAX_FILE_BYTES} are taken; split it",
            field="file",
        )
