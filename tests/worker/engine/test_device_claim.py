"""Workers that share a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from weir_core.errors import InvalidField, WeirError
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.device_claim import claim_device

CLAIM = """
import sys
from pathlib import Path
from weir_worker.engine.device_claim import claim_device
claim_device("GPU-1", "other", 0.7, Path(sys.argv[1]))
print("claimed", flush=True)
sys.stdin.read()
"""


def test_shares_above_the_whole_are_refused_and_both_are_named(tmp_path: Path) -> None:
    first = claim_device("GPU-1", "small", 0.4, tmp_path)
    claim_device("GPU-2", "elsewhere", 1.0, tmp_path)
    second = claim_device("GPU-1", "medium", 0.6, tmp_path)
    second.release()
    second.release()
    with pytest.raises(InvalidField) as caught:
        claim_device("GPU-1", "large", 0.7, tmp_path)
    for word in ("device_memory_share", "0.7", "'large'", "0.4 of 'small'", "0.6", "GPU-1"):
        assert word in caught.value.message
    first.release()
    claim_device("GPU-1", "large", 1.0, tmp_path)


def test_the_claim_of_a_killed_worker_is_void(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "claimed\n"
        with pytest.raises(InvalidField, match=r"0\.7 of 'other'"):
            claim_device("GPU-1", "mine", 0.5, tmp_path)
        worker.kill()
        worker.wait(10)
        claim_device("GPU-1", "mine", 0.5, tmp_path)


@pytest.mark.parametrize("share", [-0.1, 1.01])
def test_a_share_is_a_part_of_the_whole(share: float) -> None:
    with pytest.raises(InvalidField, match="above 0 to 1"):
        EngineConfig(model="null", device_memory_share=share)


def test_a_share_of_a_processor_or_over_several_devices_is_refused(tmp_path: Path) -> None:
    from tests.tiny_llama import write_tiny_llama
    from weir_worker.engine.factory import build_engine

    folder = str(write_tiny_llama(tmp_path / "tiny"))
    with pytest.raises(WeirError, match="kv_memory_bytes bounds"):
        build_engine(EngineConfig(model=folder, device="cpu", device_memory_share=0.5))
    with pytest.raises(InvalidField, match="tensor_parallel_size"):
        EngineConfig(model="null", device_memory_share=0.5, tensor_parallel_size=2)
