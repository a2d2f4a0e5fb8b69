"""Models, versions, defaults: what a request resolves to."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.harness import eventually, write_model_folder
from tests.gateway.support import NoPrefixes, NoSessions, caller_of, document_of, published
from weir_core.clock import ManualClock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.headroom import default_max_new_tokens
from weir_gateway.intake.preparer import Preparer
from weir_gateway.intake.routing import resolve_model, resolve_versions
from weir_gateway.intake.sampling_request import SamplingRequest
from weir_gateway.keys import generate_key
from weir_gateway.text.model_texts import ModelTexts

KEY = generate_key("dev")
CLOCK = ManualClock()


def directory(**changes: Any) -> DirectoryPublisher:
    return published(document_of(KEY, **changes), CLOCK)


def test_versions_are_drawn_by_weight_and_stick_to_the_tenant() -> None:
    model = directory().required.model("tiny")
    assert model is not None
    drawn = Counter(resolve_versions(model, "", f"tenant-{n}")[0].version for n in range(2000))
    assert 120 <= drawn["v2"] <= 280  # 10 % of 2,000 is 200
    again = [resolve_versions(model, "", "tenant-7")[0].version for _ in range(20)]
    assert len(set(again)) == 1
    assert [v.version for v in resolve_versions(model, "v2", "tenant-7")] == ["v2"]
    with pytest.raises(WeirError, match="it has v1, v2"):
        resolve_versions(model, "v3", "tenant-7")


def test_a_version_of_weight_0_is_had_by_name_alone() -> None:
    document = document_of(KEY)
    document["models"][0]["versions"][1]["weight"] = 0
    model = published(document, CLOCK).required.model("small")
    assert model is not None
    drawn = {v.version for n in range(200) for v in resolve_versions(model, "", f"t{n}")}
    assert drawn == {"v1"}, "nor does it stand in for another"
    assert resolve_versions(model, "v2", "t")[0].folder == "/m/2"


def test_aliases_lead_to_the_model_and_other_tenants_models_to_nothing() -> None:
    publisher = directory(policy={"allowed_models": ["tiny"]})
    caller = caller_of(publisher, KEY.id)
    assert resolve_model(publisher.required, caller, "small").name == "tiny"
    errors = []
    for name in ("other", "nobody"):
        with pytest.raises(WeirError) as caught:
            resolve_model(publisher.required, caller, name)
        errors.append(caught.value)
    assert [error.reason for error in errors] == [Reason.MODEL_NOT_FOUND] * 2
    assert errors[0].message.replace("other", "X") == errors[1].message.replace("nobody", "X")


@pytest.mark.parametrize(
    ("limits", "prompt", "expected"),
    [
        ([], 10, 50),
        ([], 80, 20),
        ([{"resource": "tokens", "rate": "40/min"}], 10, 30),
        ([{"resource": "tokens", "rate": "40/min"}], 39, 1),
        ([{"resource": "tokens", "rate": "40/min"}], 60, 1),
        ([{"resource": "output_tokens", "rate": "7/min"}], 10, 7),
        ([{"resource": "max_new_tokens", "limit": 9}], 10, 9),
        ([{"resource": "context_tokens", "limit": 30}], 10, 20),
        ([{"resource": "in_flight_tokens", "limit": 30}], 10, 20),
        ([{"resource": "context_tokens", "limit": 30, "shadow": True}], 10, 50),
        ([{"resource": "context_tokens", "limit": 30, "model": "other"}], 10, 50),
    ],
)
def test_the_default_bound_fits_what_the_tenant_could_ever_get(
    limits: list[dict[str, Any]], prompt: int, expected: int
) -> None:
    publisher = directory(limits=limits)
    caller = caller_of(publisher, KEY.id)
    most = default_max_new_tokens(
        publisher.required, caller, model="tiny", prompt_tokens=prompt, wanted=50, context=100
    )
    assert most == expected


async def preparer(tmp_path: Path, **changes: Any) -> tuple[Preparer, DirectoryPublisher]:
    document = document_of(KEY, **changes)
    folder = str(write_model_folder(tmp_path / "m"))
    for model in document["models"]:
        for version in model["versions"]:
            version["folder"] = folder
    document["models"][0]["parameters"] = {"temperature": 0.7, "top_k": 5, "max_new_tokens": 60}
    publisher = published(document, CLOCK)
    texts = ModelTexts(publisher, CLOCK)
    texts.start()
    assert await texts.wait_settled(10)
    await texts.stop()
    return Preparer(publisher, texts, NoSessions(), NoPrefixes()), publisher


async def test_parameters_resolve_from_model_and_tenant(tmp_path: Path) -> None:
    made, publisher = await preparer(
        tmp_path,
        parameters={"*": {"temperature": 0.2}, "tiny": {"default_max_new_tokens": 3}},
    )
    caller = caller_of(publisher, KEY.id)
    request = GenerationRequest(
        model="small", prompt="hi", priority=50, sampling=SamplingRequest(top_p=0.5)
    )
    prepared = await made.prepare(caller, request)
    sampling = prepared.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.2, 0.5, 5)
    assert not sampling.HasField("seed")
    assert prepared.max_new_tokens == 3
    assert prepared.priority == 7
    assert (prepared.subject.model, prepared.max_context_tokens) == ("tiny", 100)
    made.close()


async def test_a_tenants_policy_may_demand_a_bound(tmp_path: Path) -> None:
    made, publisher = await preparer(tmp_path, policy={"require_max_new_tokens": True})
    caller = caller_of(publisher, KEY.id)
    with pytest.raises(InvalidField, match="from 1 to 60"):
        await made.prepare(caller, GenerationRequest(model="tiny", prompt="hi"))
    request = GenerationRequest(model="tiny", prompt="hi", max_new_tokens=4)
    assert (await made.prepare(caller, request)).max_new_tokens == 4
    made.close()


async def test_long_prompts_are_tokenised_off_the_loop(tmp_path: Path) -> None:
    made, publisher = await preparer(tmp_path)
    caller = caller_of(publisher, KEY.id)
    request = GenerationRequest(model="tiny", prompt="x" * 9_000)
    with pytest.raises(WeirError, match="9000"):
        await made.prepare(caller, request)
    made.close()


async def test_a_folder_that_cannot_be_read_yet_is_tried_again(tmp_path: Path) -> None:
    document = document_of(KEY)
    for model in document["models"]:
        for version in model["versions"]:
            version["folder"] = str(tmp_path / "late")
    publisher = published(document, CLOCK)
    texts = ModelTexts(publisher, CLOCK, retry_s=0.02)
    with pytest.raises(WeirError, match="still being loaded"):
        texts.get("tiny", str(tmp_path / "late"))
    texts.start()
    assert await texts.wait_settled(10)
    with pytest.raises(WeirError) as caught:
        texts.get("tiny", str(tmp_path / "late"))
    assert (caught.value.reason, caught.value.wire.http) == (Reason.NO_WORKER, 503)
    write_model_folder(tmp_path / "late")

    def loaded() -> bool:
        try:
            texts.get("tiny", str(tmp_path / "late"))
        except WeirError:
            return False
        return True

    await eventually(loaded)
    await texts.stop()
