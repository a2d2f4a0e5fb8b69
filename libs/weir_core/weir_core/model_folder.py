"""A model on disk in Hugging Face form, read without torch.

The gateway takes tokenizer, chat template and limits from it, the worker the weights too, so
that both agree on every token.
"""

import hashlib
import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from weir_core.errors import Reason, WeirError

_TOKENIZER = "tokenizer.json"
_TEMPLATE = "chat_template.jinja"


class ModelFileError(WeirError):
    """A model file is missing, damaged or of a kind that is not supported."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(Reason.ENGINE_FAILED, f"{path}: {problem}")
        self.path = path
        self.problem = problem


def models_home() -> Path:
    """The folder of converted models: `$TOKENWEIR_HOME/models`, by default in `~/.cache`."""
    home = os.environ.get("TOKENWEIR_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "tokenweir") / "models"


class ModelFolder:
    """A folder that holds config.json, tokenizer.json, a chat template and weights.

    Attributes:
        path: the folder.
        config: config.json as it stands.
    """

    def __init__(self, path: Path) -> None:
        """Open the folder.

        Raises:
            ModelFileError: config.json or tokenizer.json is missing or unreadable.
        """
        self.path = path
        self.config = self._json("config.json")
        if not self.tokenizer_path.is_file():
            raise ModelFileError(self.tokenizer_path, "the file is missing")

    @property
    def tokenizer_path(self) -> Path:
        """tokenizer.json, as the `tokenizers` library reads it."""
        return self.path / _TOKENIZER

    @property
    def architecture(self) -> str:
        """`model_type` of config.json, such as `llama`."""
        return str(self.config.get("model_type", "unknown"))

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding, which may exceed the tokenizer's tokens."""
        return self.integer("vocab_size")

    @property
    def max_context(self) -> int:
        """Most tokens of one sequence; an active sliding window bounds it, as none is built."""
        longest = self.integer("max_position_embeddings")
        window = self.config.get("sliding_window")
        if isinstance(window, int) and self.config.get("use_sliding_window", True):
            return min(longest, window)
        return longest

    @cached_property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a sequence: those of generation_config.json and of config.json."""
        ids: dict[int, None] = {}
        for source in (self._json("generation_config.json", optional=True), self.config):
            value = source.get("eos_token_id")
            for token in value if isinstance(value, list) else [value]:
                if isinstance(token, int):
                    ids[token] = None
        return tuple(ids)

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a sequence, if the model has one."""
        value = self.config.get("bos_token_id")
        return value if isinstance(value, int) else None

    @cached_property
    def chat_template(self) -> str | None:
        """The Jinja source of the chat template; None when the model has none.

        It comes from a model's author: render it in a sandbox only.
        """
        path = self.path / _TEMPLATE
        if path.is_file():
            return path.read_text(encoding="utf-8")
        template = self._tokenizer_config.get("chat_template")
        if isinstance(template, list):
            named = {entry["name"]: entry["template"] for entry in template}
            template = named.get("default")
        return template if isinstance(template, str) else None

    @cached_property
    def special_tokens(self) -> dict[str, str]:
        """`bos_token`, `eos_token` and kin with their texts, as chat templates name them."""
        names = ("bos_token", "eos_token", "unk_token", "pad_token")
        found = {name: self._tokenizer_config.get(name) for name in names}
        texts = {
            name: value.get("content") if isinstance(value, dict) else value
            for name, value in found.items()
        }
        return {name: text for name, text in texts.items() if isinstance(text, str)}

    @cached_property
    def tokenizer_fingerprint(self) -> str:
        """SHA-256 of tokenizer.json, hex: equal fingerprints give equal token ids."""
        return hashlib.sha256(self.tokenizer_path.read_bytes()).hexdigest()

    def load_tokenizer(self) -> Tokenizer:
        """A new tokenizer, without truncation or padding (about 0.3 s for 49,000 tokens).

        Raises:
            ModelFileError: tokenizer.json is not one.
        """
        try:
            tokenizer = Tokenizer.from_file(str(self.tokenizer_path))
        except Exception as error:  # the library raises bare Exception
            raise ModelFileError(self.tokenizer_path, f"not a tokenizer: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def integer(self, field: str) -> int:
        """A positive integer of config.json.

        Raises:
            ModelFileError: it is absent or anything else.
        """
        value = self.config.get(field)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelFileError(
                self.path / "config.json", f"{field} is {value!r}; it must be a positive integer"
            )
        return value

    @cached_property
    def _tokenizer_config(self) -> dict[str, Any]:
        return self._json("tokenizer_config.json", optional=True)

    def _json(self, name: str, *, optional: bool = False) -> dict[str, Any]:
        path = self.path / name
        try:
            value = json.loads(path.read_bytes())
        except FileNotFoundError as error:
            if optional:
                return {}
            raise ModelFileError(path, "the file is missing") from error
        except (OSError, ValueError) as error:
            raise ModelFileError(path, f"not readable as JSON: {error}") from error
        if not isinstance(value, dict):
            raise ModelFileError(path, "not a JSON object")
        return value
