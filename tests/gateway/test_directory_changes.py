"""What a change of a directory of many tenants costs, and that it breaks no rule over all."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.harness import eventually
from tests.gateway.sql_directory import open_desk
from weir.directory.v1.directory_pb2 import Limit
from weir_core.errors import Reason, WeirError
from weir_gateway.directory.document import Document
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_gateway.directory.sql.records import Draft, Kind
from weir_gateway.keys import generate_key

KEYS = [generate_key() for _ in range(60)]
MANY: dict[str, Any] = {
    "plans": [{"id": "team", "limits": [{"resource": "tokens", "rate": "5k/min"}]}],
    "models": [{"name": "tiny", "versions": [{"version": "1", "folder": "/m"}], "max_context": 99}],
    "tenants": [
        {
            "id": f"t{at}",
            "plan": "team",
            "users": [{"id": "u"}],
            "keys": [{"id": key.id, "user": "u", "hash": key.hash.hex()}],
        }
        for at, key in enumerate(KEYS)
    ],
}


async def test_a_change_builds_the_tenants_that_it_touches_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/directory.sqlite"
    async with open_desk(url, MANY) as desk, open_desk(url) as other:
        built: list[list[str]] = []
        build = build_snapshot

        def watched(document: Document, version: int) -> Any:
            built.append([tenant.id for tenant in document.tenants])
            return build(document, version)

        monkeypatch.setattr("weir_gateway.directory.sql.advance.build_snapshot", watched)
        base = desk.publisher.version
        await desk.keys.revoke("admin", KEYS[7].id)
        delta = desk.publisher.delta_from(base)
        assert delta is not None
        assert [key.id for key in delta.changed.api_keys] == [KEYS[7].id]
        assert not delta.changed.tenants
        await eventually(lambda: other.publisher.required.key(KEYS[7].id).revoked)  # type: ignore[union-attr]
        plan = desk.objects.get(Kind.PLAN, "team").message
        plan.limits[0].capacity = 7
        await desk.objects.put("admin", Kind.PLAN, plan, 0)
        await desk.objects.put_cluster_limits("admin", list[Limit](), 0)
        await eventually(lambda: other.publisher.version == desk.publisher.version)
        assert set(map(tuple, built)) == {("t7",), ()}


async def test_rules_over_all_tenants_hold_for_a_change_of_one(tmp_path: Path) -> None:
    async with open_desk(f"sqlite:///{tmp_path}/directory.sqlite", MANY) as desk:
        before = desk.publisher.version

        def same_hash(draft: Draft) -> None:
            record = draft.get(Kind.KEY, KEYS[0].id, "api_key_id")
            body = record.body | {"hashes": [KEYS[1].hash.hex()]}
            draft.put(replace(record, body=body), "put")

        with pytest.raises(WeirError, match="two of them have the same hash") as caught:
            await desk.source.change("admin", same_hash)
        assert caught.value.reason is Reason.INVALID_FIELD
        with pytest.raises(WeirError, match="the plan 'team' cannot be removed"):
            await desk.objects.delete("admin", Kind.PLAN, "team")
        assert desk.publisher.version == before
        tenant = desk.objects.get(Kind.TENANT, "t3").message
        tenant.policy.allowed_models.append("tiny")
        before = (await desk.objects.put("admin", Kind.TENANT, tenant, 0)).version
        with pytest.raises(WeirError, match="the model 'tiny' cannot be removed"):
            await desk.objects.delete("admin", Kind.MODEL, "tiny")
        assert desk.publisher.version == before
