"""`/v1/files` as the `openai` SDK uses it."""

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest

from tests.gateway.harness import Gateway, eventually
from weir_gateway.files.bounds import MAX_FILE_BYTES
from weir_gateway.files.content_response import ContentResponse

pytestmark = pytest.mark.asyncio(loop_scope="module")


def boundary_body(parts: list[tuple[str, str, bytes]]) -> bytes:
    """A form; each part is a name, further options and a value."""
    body = b""
    for name, options, value in parts:
        head = f'--xyz\r\nContent-Disposition: form-data; name="{name}"{options}\r\n\r\n'
        body += head.encode() + value + b"\r\n"
    return body + b"--xyz--\r\n"


FORM = {"content-type": "multipart/form-data; boundary=xyz"}
FILE = ("file", '; filename="a.jsonl"', b"hello")
PURPOSE = ("purpose", "", b"batch")


async def test_upload_get_list_content_delete(gateway: Gateway) -> None:
    client = gateway.openai()
    content = bytes(range(256)) * 9_000
    made = await client.files.create(file=("näme.bin", content), purpose="user_data")
    assert made.bytes == len(content)
    assert (made.filename, made.purpose, made.expires_at) == ("näme.bin", "user_data", None)
    assert await client.files.retrieve(made.id) == made
    assert (await client.files.content(made.id)).content == content
    listed = await client.files.list(purpose="user_data")
    assert listed.data == [made]
    deleted = await client.files.delete(made.id)
    assert deleted.deleted
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError) as refusal:
            await call(made.id)
        assert refusal.value.code == "file_not_found"


async def test_lists_are_paged_in_both_orders(gateway: Gateway) -> None:
    client = gateway.openai()
    made = [
        (await client.files.create(file=(f"{n}.jsonl", b"x"), purpose="batch")).id for n in range(5)
    ]
    ascending = [file.id async for file in client.files.list(limit=2, order="asc")]
    descending = [file.id async for file in client.files.list(limit=2)]
    assert set(made) == set(ascending)
    assert ascending == sorted(made)
    assert descending == ascending[::-1]
    page = await client.files.list(limit=2)
    assert page.has_more
    for file_id in made:
        await client.files.delete(file_id)


async def test_a_batch_file_expires_after_30_days_others_as_asked(gateway: Gateway) -> None:
    client = gateway.openai()
    made = await client.files.create(file=b"x", purpose="batch")
    assert made.expires_at == made.created_at + 30 * 86_400
    hour = await client.files.create(
        file=b"x", purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3_600}
    )
    assert hour.expires_at is not None
    assert abs(hour.expires_at - hour.created_at - 3_600) <= 1
    with pytest.raises(openai.BadRequestError) as refusal:
        await client.files.create(
            file=b"x", purpose="batch", expires_after={"anchor": "created_at", "seconds": 60}
        )
    assert "from 3600 to 2592000" in str(refusal.value)
    for file in (made, hour):
        await client.files.delete(file.id)


async def test_another_tenants_file_is_not_there(gateway: Gateway) -> None:
    mine = await gateway.openai().files.create(file=b"secret", purpose="user_data")
    other = gateway.openai(api_key=gateway.other_key.secret)
    for call in (other.files.retrieve, other.files.content, other.files.delete):
        with pytest.raises(openai.NotFoundError):
            await call(mine.id)
    assert (await other.files.list()).data == []
    await gateway.openai().files.delete(mine.id)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([FILE], "purpose is null; it must be one of batch, user_data"),
        ([PURPOSE], "file is null"),
        ([FILE, FILE, PURPOSE], "two files"),
        ([FILE, PURPOSE, PURPOSE], "is there twice"),
        ([FILE, PURPOSE, ("purpos", "", b"x")], "there is no such field"),
        ([FILE, ("purpose", "", b"x" * 2_000)], "more than 1024 bytes"),
        ([FILE, ("purpose", "", b"fine-tune")], "one of batch, user_data"),
        ([FILE, *[(f"a{n}", "", b"") for n in range(20)]], "more than 16 fields"),
    ],
)
async def test_a_bad_form_is_told_and_leaves_nothing(
    gateway: Gateway, parts: list[tuple[str, str, bytes]], told: str
) -> None:
    answer = await gateway.http.post("/v1/files", content=boundary_body(parts), headers=FORM)
    assert answer.status_code == 400
    assert told in answer.json()["error"]["message"]
    assert (await gateway.http.get("/v1/files")).json()["data"] == []


async def test_the_file_may_come_before_its_purpose(gateway: Gateway) -> None:
    body = boundary_body([FILE, PURPOSE])
    answer = await gateway.http.post("/v1/files", content=body, headers=FORM)
    assert answer.json()["filename"] == "a.jsonl"
    await gateway.http.delete(f"/v1/files/{answer.json()['id']}")


async def test_a_cut_upload_and_no_form_are_refused(gateway: Gateway) -> None:
    cut = boundary_body([PURPOSE, FILE])[:-12]
    answer = await gateway.http.post("/v1/files", content=cut, headers=FORM)
    assert "cut short" in answer.json()["error"]["message"]
    answer = await gateway.http.post("/v1/files", json={})
    assert "multipart/form-data" in answer.json()["error"]["message"]
    answer = await gateway.http.get("/v1/files?limt=1")
    assert answer.json()["error"]["param"] == "limt"


async def test_an_announced_size_that_is_too_large_is_refused(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection(*gateway.app.http_address.split(":"))
    head = (
        f"POST /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {gateway.key.secret}\r\n"
        f"Content-Type: multipart/form-data; boundary=xyz\r\n"
        f"Content-Length: {2 * MAX_FILE_BYTES}\r\n\r\n"
    )
    writer.write(head.encode())
    await writer.drain()
    async with asyncio.timeout(20):
        answer = await reader.readuntil(b"}}")
    writer.close()
    assert b"413" in answer.split(b"\r\n")[0]
    assert f"of at most {MAX_FILE_BYTES} is taken".encode() in answer


async def test_a_body_that_never_ends_is_refused(gateway: Gateway) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield boundary_body([PURPOSE, FILE])
        for _ in range(100):
            yield b"x" * 100_000

    response = await gateway.http.post("/v1/files", content=endless(), headers=FORM)
    assert response.status_code == 413
    assert "around its file; at most 1000000" in response.json()["error"]["message"]
    assert (await gateway.openai().files.list()).data == []


async def test_one_tenants_uploads_leave_room_for_others(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir_gateway.files.uploader._OF_A_TENANT", 2)
    ends = asyncio.Event()
    begun = 0
    whole = boundary_body([PURPOSE, FILE])

    async def slow() -> AsyncIterator[bytes]:
        nonlocal begun
        yield whole[:20]
        begun += 1
        await ends.wait()
        yield whole[20:]

    async def upload(content: Any, **headers: str) -> httpx2.Response:
        return await gateway.http.post("/v1/files", content=content, headers=FORM | headers)

    running = [asyncio.create_task(upload(slow())) for _ in range(2)]
    files = gateway.openai().files
    await eventually(lambda: begun == 2)
    refused = await upload(whole)
    assert refused.status_code == 503
    assert "2 uploads of this account" in refused.json()["error"]["message"]
    other = f"Bearer {gateway.other_key.secret}"
    taken = await upload(whole, authorization=other)
    assert taken.status_code == 200
    await gateway.openai(api_key=gateway.other_key.secret).files.delete(taken.json()["id"])
    ends.set()
    made = [*[await task for task in running], await upload(whole)]
    for one in made:
        await files.delete(one.json()["id"])


async def test_a_client_that_leaves_leaves_nothing(gateway: Gateway) -> None:
    _, writer = await asyncio.open_connection(*gateway.app.http_address.split(":"))
    head = (
        f"POST /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {gateway.key.secret}\r\n"
        f"Content-Type: multipart/form-data; boundary=xyz\r\nContent-Length: 99999999\r\n\r\n"
    )
    body = boundary_body([PURPOSE, ("file", '; filename="a"', b"x" * 3_000_000)])[:-10]
    writer.write(head.encode() + body)
    await writer.drain()
    await _rows(gateway, 1)
    writer.close()
    await _rows(gateway, 0)


async def test_policy_bounds_files_and_bytes(gateway: Gateway) -> None:
    client = gateway.openai()
    document = gateway.document | {
        "tenants": [
            gateway.document["tenants"][0]
            | {"policy": {"files": {"max_files": 2, "max_bytes": 3_000_000}}},
            *gateway.document["tenants"][1:],
        ]
    }
    await gateway.reload(document)
    try:
        first = await client.files.create(file=b"x" * 2_000_000, purpose="user_data")
        with pytest.raises(openai.RateLimitError) as refusal:
            await client.files.create(file=b"x" * 2_000_000, purpose="user_data")
        assert refusal.value.code == "storage_exceeded"
        assert "files.max_bytes" in str(refusal.value)
        second = await client.files.create(file=b"x", purpose="user_data")
        with pytest.raises(openai.RateLimitError) as refusal:
            await client.files.create(file=b"x", purpose="user_data")
        assert "2 files of at most 2" in str(refusal.value)
        assert refusal.value.response.headers["x-should-retry"] == "false"
        assert len((await client.files.list()).data) == 2
    finally:
        await gateway.reload(gateway.document)
    for file in (first, second):
        await client.files.delete(file.id)


async def test_memory_is_flat_however_large_the_file(gateway: Gateway) -> None:
    size = 30_000_000
    piece = bytes(range(250)) * 400
    digest = hashlib.sha256()

    async def body() -> AsyncIterator[bytes]:
        head, _, tail = boundary_body([PURPOSE, ("file", '; filename="a"', b"*")]).partition(b"*")
        yield head
        for _ in range(size // len(piece)):
            digest.update(piece)
            yield piece
        yield tail

    tracemalloc.start()
    try:
        answer = await gateway.http.post("/v1/files", content=body(), headers=FORM)
        made = answer.json()
        got = hashlib.sha256()
        async with gateway.http.stream("GET", f"/v1/files/{made['id']}/content") as content:
            async for part in content.aiter_bytes():
                got.update(part)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made["bytes"] == size
    assert got.digest() == digest.digest()
    assert peak < size // 2
    await gateway.http.delete(f"/v1/files/{made['id']}")
    await _rows(gateway, 0)


async def _rows(gateway: Gateway, count: int) -> None:
    """Waits for so many files of any state to be there, and no chunks without a file."""
    from sqlalchemy import func, select

    from weir_gateway.files.tables import chunks, files

    assert gateway.app.edge is not None
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + 20
    found: Any = None
    while loop.time() < ends_at:
        async with gateway.app.edge.state.reading() as connection:
            found = (await connection.execute(select(func.count()).select_from(files))).scalar()
            parts = (await connection.execute(select(func.count()).select_from(chunks))).scalar()
        if found == count and (count or not parts):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{found} files and {parts} chunks; expected {count} files")


async def test_a_client_that_reads_nothing_of_a_content_is_given_up() -> None:
    asked: list[bytes] = []

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            asked.append(b"x")
            yield b"x"

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    response = ContentResponse(chunks(), {}, stall_s=0.05)
    async with asyncio.timeout(20):
        await response({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)  # type: ignore[arg-type]
    assert asked == [b"x"]
