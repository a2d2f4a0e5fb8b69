"""A gateway with every kind of key, and objects of one tenant that another tries to reach."""

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.gateway.fake_server import TOKEN
from tests.gateway.harness import MODEL, Gateway, running_gateway
from weir.gateway.v1.prefix_service_pb2 import PutPrefixRequest
from weir.gateway.v1.prefix_service_pb2_grpc import PrefixServiceStub
from weir_core.errors import Reason
from weir_gateway.keys import generate_key

ADMIN_SECRET = "an-admin-secret-of-more-than-32-characters"


@dataclass(frozen=True)
class Thing:
    """An object: its id, whose it is, who tries to reach it, and an id that nobody has."""

    id: str
    owner: str
    thief: str
    guess: str


@dataclass
class Site:
    """What the tests of this folder call."""

    gateway: Gateway
    refused: dict[str, tuple[str, Reason]]
    """Credentials that no call of a tenant accepts: header value and reason, by name."""

    async def thing(self, kind: str) -> Thing:
        """A new object of acme's that globex tries to reach; a model is the other way round."""
        acme, globex = self.gateway.key.secret, self.gateway.other_key.secret
        if kind == "model":
            # Of globex alone: acme's policy allows another model.
            return Thing("org/secret", globex, acme, "org/nothing")
        made = await MAKERS[kind](self.gateway)
        return Thing(made, acme, globex, _guess(made))

    def header(self, secret: str) -> str:
        return f"Bearer {secret}" if secret else ""


@asynccontextmanager
async def open_site(folder: Path) -> AsyncIterator[Site]:
    revoked, expired, suspended, unknown = (generate_key("dev") for _ in range(4))

    def with_bad_keys(document: dict[str, Any]) -> None:
        keys = document["tenants"][0]["keys"]
        keys.append(_entry(revoked) | {"revoked": True})
        keys.append(_entry(expired) | {"expires": "2020-01-01T00:00:00Z"})
        closed = {"id": "closed", "plan": "team", "suspended": True, "users": [{"id": "alice"}]}
        document["tenants"].append(closed | {"keys": [_entry(suspended)]})

    settings: dict[str, Any] = {
        "database_url": f"sqlite:///{folder}/directory.sqlite",
        "state_url": f"sqlite:///{folder}/state.sqlite",
        "admin_secret": ADMIN_SECRET,
    }
    async with running_gateway(folder, change=with_bad_keys, **settings) as gateway:
        refused = {
            "no key": ("", Reason.API_KEY_MISSING),
            "another scheme": ("Basic dXNlcjpwYXNz", Reason.API_KEY_INVALID),
            "malformed": ("Bearer tw-nonsense", Reason.API_KEY_INVALID),
            "unknown": (f"Bearer {unknown.secret}", Reason.API_KEY_INVALID),
            "revoked": (f"Bearer {revoked.secret}", Reason.API_KEY_REVOKED),
            "expired": (f"Bearer {expired.secret}", Reason.API_KEY_EXPIRED),
            "suspended": (f"Bearer {suspended.secret}", Reason.TENANT_SUSPENDED),
            "admin secret": (f"Bearer {ADMIN_SECRET}", Reason.API_KEY_INVALID),
            "cluster secret": (f"Bearer {TOKEN.get_secret_value()}", Reason.API_KEY_INVALID),
        }
        yield Site(gateway, refused)


def _guess(id_: str) -> str:
    """An id of the same form that nobody has."""
    return id_[:-6] + ("0" * 6 if not id_.endswith("000000") else "1" * 6)


def _entry(key: Any) -> dict[str, Any]:
    return {"id": key.id, "user": "alice", "hash": key.hash.hex()}


async def _request(gateway: Gateway) -> str:
    answer = await gateway.chat(max_tokens=1)
    return str(answer.headers["x-request-id"])


async def _posted(gateway: Gateway, path: str, body: dict[str, Any]) -> str:
    answer = await gateway.http.post(path, json=body)
    assert answer.status_code < 300, answer.text
    return str(answer.json()["id"])


async def _file(gateway: Gateway) -> str:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    line = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body}
    answer = await gateway.http.post(
        "/v1/files",
        files={"file": ("lines.jsonl", json.dumps(line).encode())},
        data={"purpose": "batch"},
    )
    assert answer.status_code < 300, answer.text
    return str(answer.json()["id"])


async def _batch(gateway: Gateway) -> str:
    body = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
    return await _posted(gateway, "/v1/batches", body | {"input_file_id": await _file(gateway)})


async def _prefix(gateway: Gateway) -> str:
    name = f"prefix-{next(_numbers):06d}"
    request = PutPrefixRequest(name=name, text="You help.", keep_cold=True)
    await PrefixServiceStub(gateway.channel).PutPrefix(
        request, metadata=gateway.metadata, timeout=20
    )
    return name


_numbers = itertools.count(1)
_TURN = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}

MAKERS: dict[str, Callable[[Gateway], Awaitable[str]]] = {
    "request": _request,
    "session": partial(_posted, path="/v1/sessions", body={"model": MODEL}),
    "response": partial(_posted, path="/v1/responses", body={"model": MODEL, "input": "hi"}),
    "file": _file,
    "job": partial(_posted, path="/v1/jobs", body={"body": _TURN}),
    "batch": _batch,
    "prefix": _prefix,
}
