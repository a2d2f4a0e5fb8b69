import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.tiny_llama import tiny_config, write_tiny_llama
from tests.worker.numerics.support import forward, made_up_tokens
from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.loader import load_model


def _with_config(folder: Path, **changes: Any) -> Path:
    write_tiny_llama(folder)
    (folder / "config.json").write_text(json.dumps(tiny_config() | changes))
    return folder


def test_end_tokens_of_both_configs_count(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 2]}')
    assert ModelFolder(tmp_path).eos_token_ids == (7, 2)


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"model_type": "llama", "sliding_window": 100}, (None, None)),
        ({"model_type": "mistral", "sliding_window": 100}, (100, 100)),
        ({"model_type": "mistral", "sliding_window": None}, (None, None)),
        ({"model_type": "mistral", "sliding_window": 512}, (None, None)),  # the whole context
        ({"model_type": "qwen2", "sliding_window": 100, "max_window_layers": 0}, (None, None)),
        (
            {"model_type": "qwen3", "use_sliding_window": True, "sliding_window": 9}
            | {"max_window_layers": 1},
            (None, 9),
        ),
        ({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5}, (5, None)),
        ({"model_type": "gemma3_text", "hidden_act": None, "sliding_window": 8}, (8, 8)),
        (
            {"model_type": "gemma3_text", "hidden_act": None, "sliding_window": 8}
            | {"sliding_window_pattern": 2},
            (8, None),
        ),
    ],
)
def test_windows_are_those_of_hugging_faces_classes(
    tmp_path: Path, changes: dict[str, Any], windows: tuple[int | None, ...]
) -> None:
    config = LlamaConfig.from_folder(ModelFolder(_with_config(tmp_path, **changes)))
    assert tuple(kind.window for kind in config.layers) == windows


def test_the_template_may_stand_in_the_tokenizer_config(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    assert ModelFolder(tmp_path).chat_template is None
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    for value, expected in (("plain", "plain"), (named, "d")):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
        assert ModelFolder(tmp_path).chat_template == expected


def test_the_fingerprint_is_that_of_the_tokenizer(tmp_path: Path) -> None:
    first = ModelFolder(write_tiny_llama(tmp_path / "a", seed=1))
    second = ModelFolder(write_tiny_llama(tmp_path / "b", seed=2))
    assert first.tokenizer_fingerprint == second.tokenizer_fingerprint
    second.tokenizer_path.write_text(first.tokenizer_path.read_text() + " ")
    assert ModelFolder(tmp_path / "b").tokenizer_fingerprint != first.tokenizer_fingerprint


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("config.json", None, "config.json: the file is missing"),
        ("config.json", "{", "config.json: not readable as JSON"),
        ("config.json", "[]", "config.json: not a JSON object"),
        ("tokenizer.json", None, "tokenizer.json: the file is missing"),
        ("tokenizer.json", "{}", "tokenizer.json: not a tokenizer"),
    ],
)
def test_a_broken_folder_is_refused(
    tmp_path: Path, name: str, content: str | None, problem: str
) -> None:
    write_tiny_llama(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelFileError) as refused:
        ModelFolder(tmp_path).load_tokenizer()
    assert problem in refused.value.message


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model_type": "gpt_bigcode"}, "model_type 'gpt_bigcode' is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'; built is 'silu'"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "rope type 'yarn'; built are"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0; it must be a positive integer"),
        ({"num_hidden_layers": "many"}, "num_hidden_layers is 'many'"),
        ({"num_key_value_heads": 3}, "4 heads, 3 KV heads"),
        ({"vocab_size": 321}, "shape [320, 64]; config.json demands [321, 64]"),
        ({"num_hidden_layers": 3}, "model.layers.2.self_attn.q_proj.weight is missing"),
        ({"num_hidden_layers": 1}, "model.layers.1.input_layernorm.weight belongs to no"),
        ({"num_hidden_layers": 5000}, "num_hidden_layers is 5000; it must be a positive integer, "),
        ({"vocab_size": 10**30}, "vocab_size is 1000000000000000000000000000000; it must be a"),
        ({"vocab_size": True}, "vocab_size is True"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps is 'small'; it must be positive"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"rope_theta": -1.0}, "rope_theta is -1.0; it must be a positive number"),
        ({"rope_theta": "big"}, "rope_theta is 'big'"),
        ({"rope_scaling": {"rope_type": "linear", "factor": None}}, "factor is None; it must be"),
        ({"rope_scaling": [1]}, "rope_scaling is [1]; it must be an object"),
        ({"eos_token_id": 320}, "eos_token_id is 320; it must be a token, 0 to 319"),
        ({"eos_token_id": "</s>"}, "eos_token_id is '</s>'"),
        ({"bos_token_id": -1}, "bos_token_id is -1; it must be a token"),
        ({"layer_types": ["full_attention"]}, "it must name all 2 layers"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "holds 'linear_attention'; b"),
        ({"model_type": "mistral", "sliding_window": 0}, "sliding_window is 0; it must be a pos"),
        ({"model_type": "qwen2"}, "tensor model.layers.0.self_attn.q_proj.bias is missing"),
        ({"model_type": "qwen3"}, "model.layers.0.self_attn.q_norm.weight is missing"),
        ({"model_type": "gemma3"}, "model_type 'gemma3' is not supported; supported are llama"),
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping is 30.0: not built"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config is {'quant_met"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ModelFileError) as refused:
        load_model(_with_config(tmp_path, **changes))
    assert problem in refused.value.message


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    path = write_tiny_llama(tmp_path) / "model.safetensors"
    tensors, intact = load_file(path), path.read_bytes()
    path.write_bytes(intact[:-10])
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(tmp_path)
    tensors["model.norm.weight"][3] = float("inf")
    save_file(tensors, path)
    with pytest.raises(ModelFileError, match=r"model\.norm\.weight .* is not finite"):
        load_model(tmp_path)
    path.unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(tmp_path)


def test_shards_are_one_model(tmp_path: Path) -> None:
    tokens = made_up_tokens(20, 320)
    whole = load_model(write_tiny_llama(tmp_path))
    tensors = load_file(tmp_path / "model.safetensors")
    names = sorted(tensors)
    index: dict[str, str] = {}
    for number, part in enumerate((names[:7], names[7:])):
        file = f"model-{number}.safetensors"
        save_file({name: tensors[name] for name in part}, tmp_path / file)
        index |= dict.fromkeys(part, file)
    (tmp_path / "model.safetensors").unlink()
    listing = tmp_path / "model.safetensors.index.json"
    listing.write_text(json.dumps({"weight_map": index}))
    sharded, logits = load_model(tmp_path), []
    for model in (whole, sharded):
        model.allocate_kv(2, 16)
        logits.append(forward(model, [(tokens, 0, 20, range(2))]))
    assert torch.equal(*logits)
    listing.write_text(json.dumps({"weight_map": {"a": "../x.safetensors"}}))
    with pytest.raises(ModelFileError, match="lies outside the folder"):
        load_model(tmp_path)


def test_the_config_tells_the_price_of_a_token(tmp_path: Path) -> None:
    config = LlamaConfig.from_folder(ModelFolder(write_tiny_llama(tmp_path)))
    assert config.kv_bytes_per_token == 2 * 2 * 2 * 16 * 4
    assert (config.vocab_size, config.max_context, config.num_kv_heads) == (320, 512, 2)


def test_half_precision_is_half_the_price_and_close(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    tokens, logits = made_up_tokens(20, 320), []
    for dtype in (torch.float32, torch.bfloat16):
        model = load_model(tmp_path, dtype=dtype, attention="gather_sdpa")
        model.allocate_kv(2, 16)
        logits.append(forward(model, [(tokens, 0, 20, range(2))]))
    assert model.config.kv_bytes_per_token == 2 * 2 * 2 * 16 * 2
    assert logits[1].dtype == torch.float32
    assert (logits[0] - logits[1]).abs().mean() < 0.1
