"""GGUF to a Hugging Face folder in fp32, by transformers alone: convert_gguf.py MODEL.gguf OUT.

Runs in the environment of the peer `transformers`.
"""

import sys
from importlib import import_module
from pathlib import Path

_NOT_OF_THE_MODEL = (
    "quantization_config",
    "_name_or_path",
    "dtype",
    "transformers_version",
    "architectures",
)


def main(source: Path, target: str) -> None:
    torch, transformers = import_module("torch"), import_module("transformers")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    fields = loaded.config.to_dict()
    for name in _NOT_OF_THE_MODEL:
        fields.pop(name, None)
    config = transformers.LlamaConfig(**fields, architectures=["LlamaForCausalLM"])
    # A model of its own: the loaded one is marked as quantised.
    model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    model.save_pretrained(target)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
