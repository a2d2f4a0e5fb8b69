import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from tests.tiny_llama import (
    CHAT_TEMPLATE,
    tiny_config,
    tiny_tensors,
    write_tiny_gguf,
    write_tiny_llama,
)
from tests.worker.numerics.support import forward, made_up_tokens
from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.models.convert import convert_gguf
from weir_worker.models.loader import load_model

_NASTY = "Hello  wörld\n\n\t 12345 don't 你好 👩‍👩‍👧 <|im_start|>user <|im_end|> \u200d\x00 _x"


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_a_converted_file_equals_the_folder_it_was_made_of(tiny_gguf: Path, tmp_path: Path) -> None:
    converted = convert_gguf(tiny_gguf, tmp_path / "converted")
    original = write_tiny_llama(tmp_path / "original")
    for name, tensor in load_file(original / "model.safetensors").items():
        assert np.array_equal(load_file(converted / "model.safetensors")[name], tensor), name
    tokens, logits = made_up_tokens(70, 320), []
    for folder in (converted, original):
        model = load_model(folder)
        model.allocate_kv(5, 16)
        logits.append(forward(model, [(tokens, 0, 70, range(5))]))
    assert torch.equal(*logits)


def test_tokenizer_template_and_special_tokens_survive(tiny_gguf: Path, tmp_path: Path) -> None:
    converted = ModelFolder(convert_gguf(tiny_gguf, tmp_path / "converted"))
    original = ModelFolder(write_tiny_llama(tmp_path / "original"))
    ids = [folder.load_tokenizer().encode(_NASTY).ids for folder in (converted, original)]
    assert ids[0] == ids[1]
    assert converted.load_tokenizer().decode(ids[0], skip_special_tokens=False) == _NASTY
    assert converted.chat_template == CHAT_TEMPLATE
    assert converted.eos_token_ids == original.eos_token_ids == (2,)
    assert converted.bos_token_id == 1
    assert converted.max_context == 512
    assert converted.special_tokens["eos_token"] == "<|im_end|>"


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "Q4_0", "F16", "BF16"])
def test_quantised_matrices_are_dequantised(tmp_path: Path, kind: str) -> None:
    quantised = gguf.GGMLQuantizationType[kind]
    path = write_tiny_gguf(tmp_path / "tiny.gguf", kind=quantised)
    folder = convert_gguf(path, tmp_path / "converted")
    stored = load_file(folder / "model.safetensors")
    for name, tensor in tiny_tensors(tiny_config()).items():
        if tensor.ndim == 2 and "q_proj" not in name and "k_proj" not in name:
            packed = gguf.quants.quantize(tensor, quantised)
            tensor = gguf.quants.dequantize(packed, quantised)
            assert np.array_equal(stored[name], tensor), name
        assert np.allclose(stored[name], tiny_tensors(tiny_config())[name], atol=0.2)


@pytest.mark.parametrize(
    ("metadata", "skip", "problem"),
    [
        ({"general.architecture": "mamba"}, (), "architecture 'mamba' is not supported"),
        ({"tokenizer.ggml.pre": "deepseek-v9"}, (), "pre-tokenizer 'deepseek-v9' is not supp"),
        ({"llama.rope.scaling.type": "yarn"}, (), "scaled rotary frequencies"),
        ({"llama.block_count": "two"}, (), "llama.block_count is 'two'; it must be an integer"),
        ({}, ("token_embd.weight",), "tensor token_embd.weight is missing"),
        ({}, ("blk.1.ffn_up.weight",), "model.layers.1.mlp.up_proj.weight is missing"),
    ],
)
def test_what_is_not_supported_is_named(
    tmp_path: Path, metadata: dict[str, str], skip: tuple[str, ...], problem: str
) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", metadata=metadata, skip=skip)
    with pytest.raises(ModelFileError) as refused:
        convert_gguf(path, tmp_path / "converted")
    assert problem in refused.value.message
    assert str(path) in refused.value.message
    assert "\n" not in refused.value.message
    assert not (tmp_path / "converted").exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cannot be read"),
        (b"GG", "does not begin with GGUF"),
        (b"PK\x03\x04" + bytes(100), "does not begin with GGUF"),
        (b"GGUF" + struct.pack("<I", 3), "truncated or damaged"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "GGUF version 50331648"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "claims 1152921504606846976 tensors"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 50), "1125899906842624 bytes announced"),
        (
            b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 1 << 40),
            "8796093022208 bytes announced",
        ),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"\xff", 4), "bad UTF-8"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 77), "unknown type 77"),
        (
            b"GGUF" + struct.pack("<IQQQ1sIQQIQ", 3, 1, 0, 1, b"t", 2, 1 << 40, 1 << 40, 0, 0),
            "truncated or damaged: tensor t",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"t", 1, 0, 0, 0),
            "tensor t of type F32 has shape [0]",
        ),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 0, 1, b"t", 900), "has 900 dimensions"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as refused:
        convert_gguf(path, tmp_path / "converted")
    assert problem in refused.value.message
    assert "\n" not in refused.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"none\.gguf: cannot be read: No such file"):
        convert_gguf(tmp_path / "none.gguf", tmp_path / "converted")


@settings(max_examples=60, deadline=None)
@given(
    cut=st.none() | st.integers(0, 1 << 20),
    changes=st.lists(st.tuples(st.integers(0, 12_000), st.integers(0, 255)), max_size=4),
)
def test_damage_ends_in_nothing_but_a_clear_refusal(
    tiny_gguf: Path, cut: int | None, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(tiny_gguf.read_bytes())
    for place, value in changes:
        content[place] = value
    path = tiny_gguf.with_suffix(".damaged")
    path.write_bytes(content[:cut])
    try:
        convert_gguf(path, tiny_gguf.with_suffix(".converted"))
    except ModelFileError:
        return
    assert cut is None or cut >= len(content)


def test_nan_in_the_weights_is_refused(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    content = bytearray(path.read_bytes())
    content[-4:] = struct.pack("<f", float("nan"))
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="holds NaN or infinity"):
        convert_gguf(path, tmp_path / "converted")
