"""Computes the reference values of the SentencePiece tokenizer test with SentencePiece itself.

    python -m venv golden && golden/bin/pip install sentencepiece numpy gguf safetensors tokenizers
    golden/bin/python -m bench.golden_sentencepiece tests/data/golden_sentencepiece.json

A BPE model with byte fallback, as Llama 2 and Mistral have it, is trained on generated text;
stored are its vocabulary in the form of GGUF metadata, and the ids of some texts.
"""

import io
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.golden_logprobs import TEXTS, long_text

EXTRA = {"spaces": "  two  and   three ", "empty": "", "newlines": "a\n\n b\tc\r\n"}
TEXTS_TO_ENCODE = {**TEXTS, **EXTRA, "long": long_text()[:2000]}


def main(target: Path) -> None:
    model = _trained()
    pieces = range(model.get_piece_size())
    kinds = [_kind(model, index) for index in pieces]
    values = {
        "tokens": [model.id_to_piece(index) for index in pieces],
        "scores": [model.get_score(index) for index in pieces],
        "token_type": kinds,
        "bos_token_id": model.bos_id(),
        "eos_token_id": model.eos_id(),
        "encoded": {name: model.encode(text) for name, text in TEXTS_TO_ENCODE.items()},
        "decoded": {
            name: model.decode(model.encode(text)) for name, text in TEXTS_TO_ENCODE.items()
        },
    }
    target.write_text(json.dumps(values) + "\n")


def _trained() -> Any:
    sentencepiece = import_module("sentencepiece")
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*long_text().splitlines(), *TEXTS.values()]),
        model_writer=stream,
        model_type="bpe",
        vocab_size=500,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=0.98,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())


def _kind(model: Any, index: int) -> int:
    if model.is_unknown(index):
        return 2
    if model.is_control(index):
        return 3
    return 6 if model.is_byte(index) else 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
