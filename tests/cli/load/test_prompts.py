"""What requests of a load say."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_cli.errors import CommandError
from weir_cli.load.load_plan import LoadSize, traced_plan
from weir_cli.load.prompts import IdPrompts, TextPrompts, WordPrompts, read_tokenizer
from weir_cli.simulation_setup import workload
from weir_core.model_folder import models_home
from weir_sim.traces.workload_options import WorkloadOptions
from weir_worker.engine.config import NULL_MODEL
from weir_worker.engine.null_folder import ensure_null_model

_TOKENIZER = read_tokenizer(ensure_null_model(models_home() / NULL_MODEL))


@given(tokens=st.integers(1, 400), index=st.integers(0, 10**6), seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_a_tokenizer_makes_prompts_of_exactly_the_wanted_length(
    tokens: int, index: int, seed: int
) -> None:
    text = str(TextPrompts(seed, _TOKENIZER).make(tokens, index))
    assert len(_TOKENIZER.encode(text, add_special_tokens=False).ids) == tokens


@given(tokens=st.integers(1, 50), index=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_prompts_are_the_same_for_the_same_place_and_of_the_given_ids(
    tokens: int, index: int
) -> None:
    ids = IdPrompts(3, range(20, 30)).make(tokens, index)
    assert ids == IdPrompts(3, range(20, 30)).make(tokens, index)
    assert len(ids) == tokens
    assert set(ids) <= set(range(20, 30))
    assert len(str(WordPrompts(3).make(tokens, index)).split()) == tokens


def test_no_two_prompts_of_a_load_begin_alike() -> None:
    for source in (WordPrompts(0), IdPrompts(0, range(1, 200)), TextPrompts(0, _TOKENIZER)):
        assert len({str(source.make(64, at))[:40] for at in range(200)}) == 200


def test_a_folder_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"--tokenizer .*tokenizer\.json"):
        read_tokenizer(tmp_path)


def test_a_traces_clients_become_the_loads_tenants() -> None:
    trace = workload("arena", "", WorkloadOptions(limit=60))
    load = traced_plan(trace, ("a", "b"), LoadSize(requests=50))
    assert len(load) == 50
    assert [one.at_s for one in load] == [one.arrival_s for one in trace.requests[:50]]
    assert {one.tenant for one in load} == {"a", "b"}
    of_client: dict[str, set[str]] = {}
    for sent, asked in zip(load, trace.requests, strict=False):
        of_client.setdefault(asked.tenant_id, set()).add(sent.tenant)
    assert all(len(tenants) == 1 for tenants in of_client.values())
