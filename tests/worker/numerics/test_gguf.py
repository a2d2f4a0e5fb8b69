import json
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from bench.golden_sentencepiece import TEXTS_TO_ENCODE
from tests.tiny_llama import (
    CHAT_TEMPLATE,
    tiny_config,
    tiny_tensors,
    write_tiny_gguf,
    write_tiny_llama,
)
from tests.worker.numerics.ggml import GGML
from tests.worker.numerics.support import forward, made_up_tokens
from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.models.convert import convert_gguf
from weir_worker.models.gguf_file import open_gguf
from weir_worker.models.gguf_tokenizer import build_tokenizer
from weir_worker.models.loader import load_model
from weir_worker.models.rope import RopeParameters

_SENTENCEPIECE = Path(__file__).parents[2] / "data" / "golden_sentencepiece.json"
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


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "F16", "BF16"])
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


@pytest.mark.parametrize("kind", GGML)
def test_every_quantisation_means_what_ggml_defines(tmp_path: Path, kind: str) -> None:
    quantised = gguf.GGMLQuantizationType[kind]
    values, size = gguf.GGML_QUANT_SIZES[quantised]
    raw = np.random.default_rng(5).integers(0, 256, (6, 512 // values, size), np.uint8)
    for offset in GGML[kind].half_floats:  # random bits would make them NaN
        raw[..., offset : offset + 2] = np.frombuffer(np.float16(-1.3).tobytes(), np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("t", raw.reshape(6, -1), raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = open_gguf(tmp_path / "m.gguf")
    expected = np.stack([GGML[kind].values(row.tobytes()) for row in raw])
    assert file.tensors["t"].shape == expected.shape == (6, 512)
    np.testing.assert_allclose(file.tensor("t"), expected, rtol=1e-6)
    assert np.array_equal(np.concatenate(list(file.parts("t"))), file.tensor("t"))


def test_a_large_tensor_comes_in_parts_of_whole_heads(
    tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = open_gguf(tiny_gguf)
    monkeypatch.setattr("weir_worker.models.gguf_file._PART_BYTES", 3 * 16 * 64 * 4)
    whole, parts = file.tensor("blk.0.attn_q.weight"), list(file.parts("blk.0.attn_q.weight", 16))
    assert [len(part) for part in parts] == [48, 16]
    assert np.array_equal(np.concatenate(parts), whole)


def _logits(folder: Path, count: int = 300) -> torch.Tensor:
    model, tokens, table = load_model(folder), made_up_tokens(count, 320), range(count // 16 + 1)
    model.allocate_kv(len(table), 16)
    return forward(model, [(tokens, 0, count, table)])


def test_linear_scaling_of_the_rotation_is_read(tmp_path: Path) -> None:
    entries: dict[str, str | float] = {
        "llama.rope.scaling.type": "linear",
        "llama.rope.scaling.factor": 4.0,
    }
    path = write_tiny_gguf(tmp_path / "tiny.gguf", metadata=entries)
    scaling = {"rope_type": "linear", "factor": 4.0}
    same = write_tiny_llama(tmp_path / "same", overrides={"rope_scaling": scaling})
    assert torch.equal(_logits(convert_gguf(path, tmp_path / "made")), _logits(same))


def test_the_divisors_of_llama_3_are_recognised(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    rope = RopeParameters.from_config({"rope_theta": 10_000.0, "rope_scaling": scaling})
    plain = RopeParameters().inverse_frequencies(16)
    divisors = (plain / rope.inverse_frequencies(16)).numpy()
    assert 1 < divisors[6] < divisors.max() == 32
    path = write_tiny_gguf(tmp_path / "tiny.gguf", extra={"rope_freqs.weight": divisors})
    same = write_tiny_llama(tmp_path / "same", overrides={"rope_scaling": scaling})
    assert torch.equal(_logits(convert_gguf(path, tmp_path / "made")), _logits(same))
    divisors[6] *= 2
    write_tiny_gguf(path, extra={"rope_freqs.weight": divisors})
    with pytest.raises(ModelFileError, match=r"does not follow the rule of Llama 3\.1"):
        convert_gguf(path, tmp_path / "made")


def test_sentencepiece_vocabularies_give_sentencepieces_tokens() -> None:
    golden = json.loads(_SENTENCEPIECE.read_text())
    names = ("tokens", "scores", "token_type", "bos_token_id")
    metadata = {f"tokenizer.ggml.{name}": golden[name] for name in names}
    tokenizer = build_tokenizer(Path("m"), metadata | {"tokenizer.ggml.model": "llama"})
    for name, text in TEXTS_TO_ENCODE.items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert ids == golden["encoded"][name], name
        assert tokenizer.decode(ids) == golden["decoded"][name], name
    assert tokenizer.encode("Hello").ids[0] == golden["bos_token_id"]
    del metadata["tokenizer.ggml.scores"]
    with pytest.raises(ModelFileError, match="scores do not fit the tokens"):
        build_tokenizer(Path("m"), metadata | {"tokenizer.ggml.model": "llama"})


@pytest.mark.parametrize(
    ("metadata", "skip", "problem"),
    [
        ({"general.architecture": "mamba"}, (), "architecture 'mamba' is not supported"),
        ({"tokenizer.ggml.pre": "deepseek-v9"}, (), "pre-tokenizer 'deepseek-v9' is not supp"),
        ({"llama.rope.scaling.type": "yarn"}, (), "frequencies scaled by 'yarn' with factor 0.0"),
        ({"llama.rope.scaling.type": "linear"}, (), "frequencies scaled by 'linear' with factor 0"),
        ({"llama.rope.freq_base": "big"}, (), "llama.rope.freq_base is 'big'; it must be a pos"),
        ({"llama.block_count": "two"}, (), "llama.block_count is 'two'; it must be an integer"),
        ({}, ("token_embd.weight",), "tensor token_embd.weight is missing"),
        ({}, ("blk.1.ffn_up.weight",), "model.layers.1.mlp.up_proj.weight is missing"),
    ],
)
def test_what_is_not_supported_is_named(
    tmp_path: Path, metadata: dict[str, str | float], skip: tuple[str, ...], problem: str
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
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 50),
            "claims 1125899906842624 bytes of a string at byte 24; at most",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 1 << 40),
            "claims 1099511627776 array entries",
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


def test_nan_in_the_weights_is_refused(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    content = bytearray(path.read_bytes())
    content[-4:] = struct.pack("<f", float("nan"))
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="holds NaN or infinity"):
        convert_gguf(path, tmp_path / "converted")
