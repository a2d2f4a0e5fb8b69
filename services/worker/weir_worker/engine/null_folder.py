"""The folder of the null model, in the form of a real one."""

import json
import tempfile
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from weir_core.byte_alphabet import character_of_byte
from weir_worker.engine.null_model import MODEL_TYPE

MAX_CONTEXT = 131_072

_END_OF_TEXT, _START, _END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def null_tokenizer() -> Tokenizer:
    """Return a byte-level tokenizer: id n below 256 is byte n, then three special tokens."""
    vocabulary = {character: byte for byte, character in enumerate(character_of_byte())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True) for text in (_END_OF_TEXT, _START, _END)]
    )
    return tokenizer


def ensure_null_model(folder: Path) -> Path:
    """Write the model's folder unless it is there; concurrent writers do no harm.

    It holds config.json, tokenizer.json, tokenizer_config.json and chat_template.jinja, as
    the folder of a real model does, and no weights.
    """
    if (folder / "config.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as made:
        draft = Path(made) / folder.name
        draft.mkdir()
        _write_files(draft)
        try:
            draft.rename(folder)
        except OSError:
            # Another process was faster; its files are the same.
            if not (folder / "config.json").is_file():
                raise
    return folder


def _write_files(folder: Path) -> None:
    tokenizer = null_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"eos_token": _END, "pad_token": _END_OF_TEXT}
    _write_json(folder / "tokenizer_config.json", special)
    (folder / "chat_template.jinja").write_text(_CHAT_TEMPLATE, encoding="utf-8")
    config = {
        "model_type": MODEL_TYPE,
        "vocab_size": tokenizer.get_vocab_size(),
        "max_position_embeddings": MAX_CONTEXT,
        "eos_token_id": tokenizer.token_to_id(_END),
    }
    _write_json(folder / "config.json", config)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
