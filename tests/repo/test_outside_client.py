"""How the outside client's figures are held against ours."""

import json
from pathlib import Path

import pytest

from bench.outside_client import Outside
from bench.peers.peer_process import PeerFailed
from bench.peers.run_aiperf import Told, _told, write_load
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.prompts import WordPrompts


def _told_of(*pairs: tuple[float, float]) -> tuple[Told, ...]:
    return tuple(Told(ttft, tokens, 5) for ttft, tokens in pairs)


def test_turns_that_follow_each_other_are_compared() -> None:
    ours = _told_of((1.0, 10.0), (2.0, 8.0), (4.0, 4.0))
    same = Outside(ours, _told_of((1.02, 10.0), (2.04, 8.0), (4.08, 4.0)))
    assert same.error == pytest.approx(0.02)
    assert same.spread == pytest.approx(1.5)
    assert same.agrees


def test_a_client_that_tells_something_else_does_not_agree() -> None:
    ours = _told_of((1.0, 10.0), (1.01, 10.0), (0.99, 10.0))
    other = Outside(ours, _told_of((1.0, 12.0), (1.0, 12.0), (1.0, 12.0)))
    assert other.error == pytest.approx(0.2)
    assert not other.agrees
    assert other.figures()["outside_client_error"] == pytest.approx(0.2)


def test_the_load_is_written_at_its_moments_and_the_report_read_by_name(tmp_path: Path) -> None:
    load = [LoadRequest(at, 0.5 * at, "a", 3, 7) for at in range(3)]
    write_load(tmp_path / "load.jsonl", load, WordPrompts(0))
    rows = [json.loads(line) for line in (tmp_path / "load.jsonl").read_text().splitlines()]
    assert [row["timestamp"] for row in rows] == [0, 500, 1000]
    assert all(row["output_length"] == 7 and len(row["text_input"].split()) == 3 for row in rows)

    report = tmp_path / "deep" / "profile_export_aiperf.json"
    report.parent.mkdir()
    with pytest.raises(PeerFailed, match="wrote no report"):
        _told(tmp_path, tmp_path)
    report.write_text(json.dumps({"time_to_first_token": {"avg": 250.0}}))
    with pytest.raises(PeerFailed, match="output_token_throughput"):
        _told(tmp_path, tmp_path)
    report.write_text(
        json.dumps(
            {
                "time_to_first_token": {"avg": 250.0},
                "output_token_throughput": {"avg": 9.0},
                "request_count": {"avg": 3.0},
            }
        )
    )
    assert _told(tmp_path, tmp_path) == Told(0.25, 9.0, 3)
