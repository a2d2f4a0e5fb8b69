"""The default model, calibrated for real: on a machine that does nothing else."""

import json
import time
from pathlib import Path

import pytest

from tests.cli.command import weir
from tests.default_model import default_model_folder

_MOST_S = 600


@pytest.mark.soak
@pytest.mark.model
@pytest.mark.timeout(1800)
def test_the_recommendation_holds_and_the_simulator_is_right(tmp_path: Path) -> None:
    folder = default_model_folder()
    began = time.monotonic()
    ended = weir("calibrate", "--model", str(folder), "--out", str(tmp_path / "out"), "-o", "json")
    took_s = time.monotonic() - began
    assert ended.returncode == 0, ended.stderr
    numbers = json.loads(ended.stdout)
    assert took_s < _MOST_S
    assert numbers["verdict"] in {"better", "equal", "worse"}
    recommended = {one["name"]: one["value"] for one in numbers["recommendation"]}
    kept = numbers["verdict"] != "worse"
    assert (numbers["kept"]["max_batch_size"] == recommended["max_batch_size"]) is kept
    off = [one for one in numbers["agreement"] if not one["holds"]]
    assert not off, json.dumps(off, indent=2)
