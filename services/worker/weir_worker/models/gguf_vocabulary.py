"""The `tokenizer.ggml.*` entries of a GGUF file, checked against each other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir_core.model_folder import ModelFileError

UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """What a tokenizer is made of.

    Attributes:
        path: of the file, for messages.
        model: `gpt2` (byte-level BPE) or `llama` (SentencePiece BPE), among others.
        pre: name of the rule that splits text before BPE.
        tokens: by id.
        kinds: for each token 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte.
        entries: all metadata of the file.
    """

    path: Path
    model: str
    pre: str
    tokens: list[str]
    kinds: list[int]
    entries: dict[str, Any]

    @classmethod
    def read(cls, path: Path, metadata: dict[str, Any]) -> "GgufVocabulary":
        """Read the metadata.

        Raises:
            ModelFileError: tokens are missing or twice there, or kinds do not fit them.
        """
        tokens = metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list) or not tokens or not isinstance(tokens[0], str):
            raise ModelFileError(path, "tokenizer.ggml.tokens is no array of strings")
        if len(set(tokens)) != len(tokens):
            raise ModelFileError(path, "damaged: tokenizer.ggml.tokens holds a token twice")
        kinds = metadata.get("tokenizer.ggml.token_type", [1] * len(tokens))
        if not isinstance(kinds, list) or len(kinds) != len(tokens):
            raise ModelFileError(path, "damaged: tokenizer.ggml.token_type does not fit the tokens")
        model = metadata.get("tokenizer.ggml.model")
        pre = metadata.get("tokenizer.ggml.pre", "default")
        return cls(path, str(model), str(pre), tokens, kinds, metadata)

    @property
    def ids(self) -> dict[str, int]:
        """Id by token."""
        return {token: index for index, token in enumerate(self.tokens)}

    def merges(self) -> list[tuple[str, str]]:
        """The merges of a byte-level BPE, in order of rank.

        Raises:
            ModelFileError: they are missing, or one makes no token.
        """
        texts = self.entries.get("tokenizer.ggml.merges")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ModelFileError(self.path, "tokenizer.ggml.merges is no array of strings")
        known, merges = set(self.tokens), []
        for text in texts:
            left, _, right = text.partition(" ")
            if left + right not in known:
                raise ModelFileError(self.path, f"damaged: merge {text!r} makes no token")
            merges.append((left, right))
        return merges

    def scores(self) -> list[float]:
        """The score of each token of a SentencePiece model.

        Raises:
            ModelFileError: they are missing or do not fit the tokens.
        """
        scores = self.entries.get("tokenizer.ggml.scores")
        if not isinstance(scores, list) or len(scores) != len(self.tokens):
            raise ModelFileError(self.path, "tokenizer.ggml.scores do not fit the tokens")
        return [float(score) for score in scores]

    def flag(self, name: str, default: bool) -> bool:
        """`tokenizer.ggml.<name>`."""
        return bool(self.entries.get(f"tokenizer.ggml.{name}", default))

    def token(self, name: str) -> tuple[str, int] | None:
        """Text and id of `tokenizer.ggml.<name>_token_id`; None if there is no such token."""
        index = self.entries.get(f"tokenizer.ggml.{name}_token_id")
        if not isinstance(index, int) or not 0 <= index < len(self.tokens):
            return None
        return self.tokens[index], index
