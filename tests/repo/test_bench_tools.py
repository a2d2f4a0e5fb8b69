"""What the benchmarks of the engine stand on: medians, divergence, the peers' installation."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bench.divergence import divergence
from bench.engine_race import race_figures
from bench.peers.catalogue import PEERS, Peer
from bench.peers.install import PeerError, install
from bench.samples import Samples


def test_a_figure_is_the_median_and_null_if_it_was_not_measured() -> None:
    samples = Samples()
    for value in (3.0, 100.0, 4.0):
        samples.add("x", value)
    assert samples.median("x") == 4.0
    assert samples.median("y") is None
    assert samples.ratio("x", "y") is None
    assert samples.runs() == {"x": 3}


def test_the_best_peer_is_the_faster_one_and_null_unless_both_were_measured() -> None:
    samples = Samples()
    samples.add("int8/16", 120.0)
    samples.add("openvino/16", 100.0)
    assert race_figures(samples, ["openvino"])["ratio_best_peer_16"] is None
    samples.add("llama.cpp/16", 60.0)
    figures = race_figures(samples, ["openvino", "llama.cpp"])
    assert figures["ratio_best_peer_16"] == 1.2
    assert figures["ratio_best_peer_1"] is None
    assert figures["peers"]["llama.cpp"] == {"tok_s_16": 60.0, "tok_s_1": None}


def test_divergence_is_that_of_the_definition() -> None:
    expected, found = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])
    logits = [np.log(each)[None].astype(np.float32) + 7 for each in (expected, found)]
    kl, same = divergence(logits[0], logits[1])
    assert kl[0] == pytest.approx(float(np.sum(expected * np.log(expected / found))), abs=1e-6)
    assert not same[0]
    kl, same = divergence(logits[0], logits[0] + 3)
    assert kl[0] == pytest.approx(0, abs=1e-6)
    assert same[0]
    with pytest.raises(ValueError, match="shape"):
        divergence(logits[0], logits[1][:, :2])


def test_every_peer_is_pinned() -> None:
    assert all("==" in line for peer in PEERS for line in peer.requirements)


def test_a_peer_that_fails_is_one_line_and_one_that_is_there_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEERS", str(tmp_path))
    bin_folder = tmp_path / "broken" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to(sys.executable)
    broken = Peer("broken", (f"broken @ file://{tmp_path}/no-such.whl",), "json")
    with pytest.raises(PeerError) as failed:
        install(broken)
    assert "\n" not in str(failed.value)
    assert str(tmp_path / "broken.log") in str(failed.value)

    (bin_folder.parent / ".installed").write_text("json==1\n-other\n")
    there = Peer("broken", ("json==1",), "json", remove=("other",))
    assert install(there) == "is there"
