"""What a loaded model leaves in memory."""

import gc
import sys
from pathlib import Path

import pytest
import torch

from tests.tiny_llama import write_tiny_llama
from weir_worker.attention import PagedKvCache
from weir_worker.models.loader import load_model
from weir_worker.models.precision import Precision

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_MIB = 1 << 20


def _resident_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 // _MIB


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_files_are_not_mapped_once_the_model_is_loaded(
    tmp_path: Path, precision: Precision, tied: bool
) -> None:
    folder = write_tiny_llama(tmp_path, overrides={"tie_word_embeddings": tied})
    model = load_model(folder, precision=precision)
    gc.collect()
    assert str(folder) not in Path("/proc/self/maps").read_text()
    assert model.config.vocab_size == 320


def test_blocks_take_memory_when_they_are_written() -> None:
    before = _resident_mib()
    cache = PagedKvCache(
        num_layers=4, num_blocks=1024, block_size=64, num_kv_heads=8, head_dim=64
    )  # 1 GiB
    assert _resident_mib() - before < 100
    slots = torch.arange(64 * 100, 64 * 110)
    rows = torch.ones(640, 8, 64)
    cache.write(1, rows, rows, slots)
    assert float(cache.keys[1][100:110].sum()) == 640 * 8 * 64
    assert float(cache.keys[1][110].abs().sum()) == 0
    assert cache.keys[1].data_ptr() % 64 == 0
    assert _resident_mib() - before < 100
