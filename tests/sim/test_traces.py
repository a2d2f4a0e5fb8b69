"""Readers of published formats."""

import gzip
import os
from pathlib import Path

import pytest

from tests.sim.samples import BY_FORMAT, SAMPLES
from weir_scheduler.queues.entry import RequestClass
from weir_sim.traces.named import FORMATS, format_of
from weir_sim.traces.tenants import TenantMapping, TenantRule, parse_mapping
from weir_sim.traces.trace_error import TraceError
from weir_sim.traces.trace_format import ReadSpan
from weir_sim.traces.workload_of import prefix_hash, workload_of_file
from weir_sim.traces.workload_options import WorkloadOptions


def test_there_is_a_sample_of_every_format() -> None:
    assert BY_FORMAT.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_recognised_by_its_first_line_alone(name: str) -> None:
    assert [one for one in FORMATS if FORMATS[one].matches(_head(name))] == [name]
    assert format_of(BY_FORMAT[name]).name == name


def _head(name: str) -> str:
    return BY_FORMAT[name].read_text().splitlines()[0]


def test_azure_counts_seconds_from_its_first_row() -> None:
    workload = workload_of_file(BY_FORMAT["azure"], WorkloadOptions())
    assert [request.arrival_s for request in workload.requests] == [0, 0.5, 1.25, 3.75]
    assert workload.requests[1].prompt_tokens == 640
    assert workload.requests[3].output_tokens == 44
    assert {request.tenant_id for request in workload.requests} == {"all"}


def test_mooncake_ids_become_hashes_of_full_pieces() -> None:
    workload = workload_of_file(BY_FORMAT["mooncake"], WorkloadOptions())
    assert workload.prefix_granularity == 512
    assert [len(request.prefix_hashes) for request in workload.requests] == [2, 3, 0, 2]
    first, second, _, last = (request.prefix_hashes for request in workload.requests)
    assert first[:2] == second[:2] == last
    assert workload.requests[1].arrival_s == 3.0


def test_prefixes_are_never_shared_by_two_tenants() -> None:
    assert prefix_hash("a", 1) != prefix_hash("b", 1)
    assert prefix_hash("a", 1) == prefix_hash("a", 1)
    options = WorkloadOptions(tenants=TenantMapping(TenantRule.ROUND_ROBIN, 2))
    first, second, _, last = workload_of_file(BY_FORMAT["mooncake"], options).requests
    assert not set(first.prefix_hashes) & set(second.prefix_hashes)
    assert last.prefix_hashes == second.prefix_hashes[:2]


def test_arena_keeps_its_clients_as_tenants_with_weights() -> None:
    options = WorkloadOptions(weights={"t4": 3}, batch=frozenset({"t9"}))
    workload = workload_of_file(BY_FORMAT["vtc-arena"], options)
    assert [request.tenant_id for request in workload.requests] == ["t4", "t9", "t4", "t4"]
    assert workload.tenants["t4"].weight == 3
    assert workload.requests[1].request_class is RequestClass.BATCH
    assert workload.requests[0].request_class is RequestClass.INTERACTIVE


def test_servegen_draws_each_bins_published_number_in_its_time() -> None:
    rows = list(FORMATS["servegen"].read(BY_FORMAT["servegen"], ReadSpan()))
    moments = [row.arrival_s or 0.0 for row in rows]
    assert moments == sorted(moments)
    per_bin = {
        (client, start): sum(
            row.client == client and start <= (row.arrival_s or 0.0) < start + 600 for row in rows
        )
        for client in "01"
        for start in (0, 600)
    }
    assert per_bin == {("0", 0): 60, ("0", 600): 120, ("1", 0): 30, ("1", 600): 30}
    assert all(10 <= row.prompt_tokens <= 300 for row in rows)
    assert rows == list(FORMATS["servegen"].read(BY_FORMAT["servegen"], ReadSpan()))


def test_servegen_reads_a_part_of_the_days() -> None:
    rows = list(FORMATS["servegen"].read(BY_FORMAT["servegen"], ReadSpan(650, 700, seed=3)))
    assert rows
    assert all(650 <= (row.arrival_s or 0.0) < 700 for row in rows)


def test_servegen_without_its_lengths_names_the_file_that_is_missing(tmp_path: Path) -> None:
    alone = tmp_path / "x.arrivals.csv"
    alone.write_bytes(BY_FORMAT["servegen"].read_bytes())
    with pytest.raises(TraceError, match=r"x\.length_quantiles\.csv is missing"):
        workload_of_file(alone, WorkloadOptions())


def test_a_class_predicts_the_mean_of_its_rows() -> None:
    workload = workload_of_file(BY_FORMAT["ssjf"], WorkloadOptions(rate_rps=1))
    assert sorted(
        (request.output_tokens, request.predicted_output or 0) for request in workload.requests
    ) == [(40, 60), (60, 180), (80, 60), (300, 180)]


def test_lengths_alone_need_a_rate() -> None:
    with pytest.raises(TraceError, match="give --rate"):
        workload_of_file(BY_FORMAT["vidur"], WorkloadOptions())
    workload = workload_of_file(BY_FORMAT["vidur"], WorkloadOptions(rate_rps=2))
    assert [request.prompt_tokens for request in workload.requests] == [900, 700]
    assert 0 < workload.requests[0].arrival_s < workload.requests[1].arrival_s


def test_sharegpt_counts_from_its_first_arrival() -> None:
    workload = workload_of_file(BY_FORMAT["sharegpt"], WorkloadOptions())
    assert [request.arrival_s for request in workload.requests] == [0, pytest.approx(0.5)]


def test_a_part_of_a_trace_begins_at_zero_and_runs_at_another_speed() -> None:
    options = WorkloadOptions(from_s=0.5, until_s=3.75, rate_scale=2.0)
    workload = workload_of_file(BY_FORMAT["azure"], options)
    assert [request.arrival_s for request in workload.requests] == [0, 0.375]
    limited = workload_of_file(BY_FORMAT["azure"], WorkloadOptions(limit=3))
    assert len(limited.requests) == 3


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    packed = tmp_path / "arena.csv.gz"
    packed.write_bytes(gzip.compress(BY_FORMAT["vtc-arena"].read_bytes()))
    assert len(workload_of_file(packed, WorkloadOptions()).requests) == 4


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("azure.csv", "640", "-1", "line 3: ContextTokens is '-1'; it must be a whole number"),
        ("azure.csv", "2023-11-16 10:00:01", "noon", "line 4: TIMESTAMP is 'noon"),
        ("azure.csv", "64,5\n", "64\n", "line 4: the number of fields is 2; it must be 3"),
        ("azure.csv", "120", "99999999", "line 2: ContextTokens is '99999999'; it must be a whole"),
        ("mooncake.jsonl", '"output_length": 12', '"output_length": 0', "line 2: output_length"),
        ("mooncake.jsonl", "[12]", '["x"]', r"line 3: hash_ids is \['x'\]"),
        ("mooncake.jsonl", '500, "output_length": 3', "500 3", "line 3: not a JSON object"),
        ("arena.csv", "0.75", "nan", "line 4: arrival_s is 'nan0000'; it must be a number"),
        ("demo.arrivals.csv", "Weibull", "Normal", "line 4: pattern is 'Normal'"),
        ("demo.length_quantiles.csv", "10,20,40", "50,20,40", "line 2: p5 to p99"),
    ],
)
def test_a_bad_field_is_named_with_file_line_value_and_bound(
    tmp_path: Path, name: str, old: str, new: str, told: str
) -> None:
    for sample in SAMPLES.iterdir():
        text = sample.read_text()
        assert sample.name != name or old in text
        changed = text.replace(old, new, 1) if sample.name == name else text
        (tmp_path / sample.name).write_text(changed)
    read = name.replace("length_quantiles", "arrivals")
    with pytest.raises(TraceError, match=told) as raised:
        workload_of_file(tmp_path / read, WorkloadOptions())
    assert str(tmp_path / name) in str(raised.value)


def test_a_file_of_no_format_is_told_with_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a,b\n1,2\n")
    with pytest.raises(TraceError, match=r"line 1: 'a,b' begins none of azure, mooncake"):
        workload_of_file(tmp_path / "x", WorkloadOptions())
    with pytest.raises(TraceError, match="columns are"):
        workload_of_file(tmp_path / "x", WorkloadOptions(), "azure")
    with pytest.raises(TraceError, match="--format is 'orca'"):
        workload_of_file(tmp_path / "x", WorkloadOptions(), "orca")
    with pytest.raises(TraceError, match="cannot be read"):
        workload_of_file(tmp_path / "absent", WorkloadOptions())


def test_options_name_value_and_bound() -> None:
    with pytest.raises(TraceError, match="--rate-scale is 0"):
        WorkloadOptions(rate_scale=0)
    with pytest.raises(TraceError, match="--from 9 and --until 3"):
        WorkloadOptions(from_s=9, until_s=3)
    with pytest.raises(TraceError, match="t1 has 2000; it must be 1 to 1000"):
        WorkloadOptions(weights={"t1": 2000})
    with pytest.raises(TraceError, match="N must be a whole number"):
        parse_mapping("hash:0")
    with pytest.raises(TraceError, match="no request in the chosen part"):
        workload_of_file(BY_FORMAT["azure"], WorkloadOptions(from_s=100))


def test_tenants_by_hash_or_in_turn() -> None:
    in_turn = workload_of_file(
        BY_FORMAT["azure"], WorkloadOptions(tenants=parse_mapping("round-robin:3"))
    )
    assert [request.tenant_id for request in in_turn.requests] == ["t0", "t1", "t2", "t0"]
    hashed = parse_mapping("hash:4")
    row = next(FORMATS["azure"].read(BY_FORMAT["azure"], ReadSpan()))
    counts = [0] * 4
    for index in range(4_000):
        counts[int(hashed.tenant_of(index, row)[1:])] += 1
    assert all(900 < count < 1_100 for count in counts)


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("azure-2023/AzureLLMInferenceTrace_code.csv", 8_819),
        ("mooncake-fast25/synthetic_trace.jsonl", 3_993),
        ("vtc-arena/arena_trace_27clients.csv", 1_500),
    ],
)
def test_the_published_files_are_read_whole(file: str, rows: int) -> None:
    folder = os.environ.get("TRACES")
    if not folder:
        pytest.skip("TRACES names no folder of published traces")
    path = Path(folder) / file
    assert len(workload_of_file(path, WorkloadOptions()).requests) == rows


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (["2023-11-16 18:17:05.0,1,1", "2023-11-16 18:17:01.0,1,1"], "line 3: TIMESTAMP"),
        (["0001-01-01 00:00:00.0,1,1", "9999-01-01 00:00:00.0,1,1"], "line 3: TIMESTAMP"),
        (["x" * 200_000], "line 2: not CSV"),
    ],
)
def test_rows_before_the_first_or_centuries_after_it_are_named(
    tmp_path: Path, rows: list[str], fault: str
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""]))
    with pytest.raises(TraceError, match=fault):
        workload_of_file(path, WorkloadOptions())


def test_moments_with_and_without_a_zone_may_be_mixed(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    moments = ["2024-05-10 00:00:00.5", "2024-05-10 00:00:02+00:00"]
    rows = [f"{moment},1,1" for moment in moments]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""]))
    requests = workload_of_file(path, WorkloadOptions()).requests
    assert [request.arrival_s for request in requests] == [0, 1.5]


def test_a_line_of_brackets_is_no_json_object(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(_head("mooncake") + "\n" + "[" * 100_000 + "\n")
    with pytest.raises(TraceError, match="line 2: not a JSON object"):
        workload_of_file(path, WorkloadOptions())
