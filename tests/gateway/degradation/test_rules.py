"""Fallbacks and policies in the directory file and in its forms."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.sql_directory import of_file, open_desk, parsed
from tests.gateway.support import document_of
from weir.directory.v1.directory_pb2 import Model, Truncation
from weir_core.directory import DirectoryIndex
from weir_core.errors import WeirError
from weir_gateway.directory.file import DirectoryFileError
from weir_gateway.directory.sql.entry_form import model_form, plan_form
from weir_gateway.directory.sql.records import Kind
from weir_gateway.keys import generate_key


def document(**models: str | None) -> dict[str, Any]:
    """One with models and their fallbacks."""
    made = document_of(generate_key())
    tiny = made["models"][0]
    made["models"] = [
        tiny | {"name": name, "aliases": [], "fallback_model": fallback}
        for name, fallback in models.items()
    ]
    made["tenants"][0].pop("policy", None)
    return made


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ({"tiny": "nothing"}, "there is no model 'nothing'"),
        ({"tiny": "tiny"}, "tiny -> tiny"),
        ({"tiny": "b", "b": "c", "c": "tiny"}, "tiny -> b -> c -> tiny"),
        ({"tiny": None, "a": "b", "b": "a"}, "a -> b -> a"),
    ],
)
def test_a_chain_that_leads_nowhere_or_round_is_refused(
    models: dict[str, str | None], told: str
) -> None:
    with pytest.raises(DirectoryFileError, match="fallback_model") as caught:
        parsed(document(**models))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "policy",
    [
        {"degradations": ["worse_model"]},
        {"degradation": {"min_new_tokens": 0}},
        {"degradation": {"max_wait_ms": 600_001}},
        {"degradation": {"truncate": "tail"}},
    ],
)
def test_a_policy_out_of_bounds_is_refused(policy: dict[str, Any]) -> None:
    made = document(tiny=None)
    made["tenants"][0]["policy"] = policy
    with pytest.raises(DirectoryFileError, match="degradation"):
        parsed(made)


def test_a_tenant_overrides_its_plan_field_by_field_and_forms_come_back() -> None:
    made = document(tiny="nano", nano=None)
    bounds = {"min_new_tokens": 9, "max_wait_ms": 1_500, "truncate": "head"}
    made["plans"][0]["policy"] = {"degradations": ["smaller_model"], "degradation": bounds}
    made["tenants"][0]["policy"] = {"degradation": {"truncate": "none"}}
    snapshot = of_file(made)
    policy = DirectoryIndex(snapshot).policy("acme")
    assert list(policy.degradations) == ["smaller_model"]
    assert policy.degradation.min_new_tokens == 9
    assert policy.degradation.truncate == Truncation.TRUNCATION_NONE
    assert model_form(snapshot.models[0])["fallback_model"] == "nano"
    plan = next(plan for plan in snapshot.plans if plan.policy.degradations)
    assert plan_form(plan)["policy"]["degradation"] == bounds


async def test_an_administrator_can_neither_close_a_circle_nor_take_a_fallback_away(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/directory.sqlite"
    async with open_desk(url, document(tiny="nano", nano=None)) as desk:
        (nano,) = [model for model in desk.snapshot.models if model.name == "nano"]
        changed = Model()
        changed.CopyFrom(nano)
        changed.fallback_model = "tiny"
        with pytest.raises(WeirError, match="leads back to it"):
            await desk.objects.put("me", Kind.MODEL, changed, 0)
        with pytest.raises(WeirError, match="there is no model 'nano'"):
            await desk.objects.delete("me", Kind.MODEL, "nano")
        assert len(desk.snapshot.models) == 2
