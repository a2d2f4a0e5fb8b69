"""Small parts that unit tests of the gateway share."""

from typing import Any

import yaml

from weir_core.clock import ManualClock
from weir_gateway.caller.caller import Caller
from weir_gateway.directory.file import parse_document
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.keys import NewKey


def published(
    document: dict[str, Any], clock: ManualClock, publisher: DirectoryPublisher | None = None
) -> DirectoryPublisher:
    """A directory that holds a document."""
    publisher = publisher or DirectoryPublisher(clock)
    parsed = parse_document(yaml.safe_dump(document), "directory.yaml")
    publisher.publish(build_snapshot(parsed, publisher.next_version()))
    return publisher


def document_of(key: NewKey, **changes: Any) -> dict[str, Any]:
    """One tenant, one key, one model; `changes` replace fields of the tenant or of the key."""
    tenant: dict[str, Any] = {
        "id": "acme",
        "plan": "team",
        "users": [{"id": "alice"}],
        "keys": [{"id": key.id, "user": "alice", "hash": key.hash.hex()}],
    }
    for name, value in changes.items():
        (tenant["keys"][0] if name.startswith("key_") else tenant)[name.removeprefix("key_")] = (
            value
        )
    return {
        "plans": [
            {
                "id": "team",
                "limits": [
                    {"resource": "concurrency", "limit": 4},
                    {"resource": "requests", "rate": "2/s"},
                    {"resource": "tokens", "rate": "1000/min"},
                ],
                "policy": {"max_priority": 7},
            }
        ],
        "models": [
            {
                "name": "tiny",
                "aliases": ["small"],
                "versions": [
                    {"version": "v1", "folder": "/m/1", "weight": 90},
                    {"version": "v2", "folder": "/m/2", "weight": 10},
                ],
                "max_context": 100,
            },
            {
                "name": "other",
                "versions": [{"version": "v1", "folder": "/m/3"}],
                "max_context": 100,
            },
        ],
        "tenants": [tenant],
    }


def caller_of(publisher: DirectoryPublisher, key_id: str, tenant_id: str = "acme") -> Caller:
    """The caller of a key, as the authenticator would make it."""
    index = publisher.required
    return Caller(
        tenant_id=tenant_id,
        user_id="alice",
        key_id=key_id,
        plan_id="team",
        policy=index.policy(tenant_id),
        key_models=frozenset(),
        expire_us=0,
        version=index.version,
    )


class NoSessions:
    """The sessions of a gateway on which nobody has any."""

    async def turn_of(self, caller: Caller, request: GenerationRequest, model: str) -> None:
        """No request is a turn."""


class NoPrefixes:
    """The prefixes of a gateway on which nobody has any."""

    async def applied(self, caller: Caller, request: GenerationRequest) -> GenerationRequest:
        raise AssertionError(request.prefix)


def routes_of(app: Any) -> list[Any]:
    """Routes of an ASGI application, whatever is wrapped around it."""
    while not hasattr(app, "routes"):
        app = app.app
    return list(app.routes)
