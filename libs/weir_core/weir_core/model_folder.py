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

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from weir_core.errors import Reason, WeirError

_TOKENIZER = "tokenizer.json"
_TEMPLATE = "chat_template.jinja"
_ADAPTER = "adapter_config.json"
_MOST_JSON_BYTES = 32 << 20
_MOST_TEMPLATE_BYTES = 1 << 20
_MOST_TOKENIZER_BYTES = 512 << 20
_LONGEST_PROBLEM = 600
_LARGEST = (1 << 31) - 1
_LONGEST_CONTEXT = 1 << 21


class ModelFileError(WeirError):
    """A model file is missing, damaged or of a kind that is not supported."""

    def __init__(self, path: Path, problem: str) -> None:
        # Names come from the file: whatever they hold, the message is one line.
        self.problem = " ".join(problem.split())[:_LONGEST_PROBLEM]
        super().__init__(Reason.ENGINE_FAILED, f"{path}: {self.problem}")
        self.path = path


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
            ModelFileError: config.json or tokenizer.json is missing or unreadable, or the folder
                holds an adapter in place of a model.
        """
        self.path = path
        if (path / _ADAPTER).is_file():
            raise ModelFileError(
                path / _ADAPTER,
                "this is an adapter (LoRA), which is not built; merge it into its base model and "
                "give that folder",
            )
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
        """Most tokens of one sequence."""
        return self.integer("max_position_embeddings", most=_LONGEST_CONTEXT)

    @cached_property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a sequence: those of generation_config.json and of config.json.

        Raises:
            ModelFileError: one is not in the vocabulary.
        """
        ids: dict[int, None] = {}
        generation = self._json("generation_config.json", optional=True)
        for name, source in (("generation_config.json", generation), ("config.json", self.config)):
            value = source.get("eos_token_id")
            for token in value if isinstance(value, list) else [value]:
                if token is not None:
                    ids[self._token(name, "eos_token_id", token)] = None
        return tuple(ids)

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a sequence, if the model has one."""
        value = self.config.get("bos_token_id")
        return None if value is None else self._token("config.json", "bos_token_id", value)

    @cached_property
    def chat_template(self) -> str | None:
        """The Jinja source of the chat template; None when the model has none.

        It comes from a model's author: render it in a sandbox only.

        Raises:
            ModelFileError: it is not UTF-8, or larger than 1 MiB.
        """
        path = self.path / _TEMPLATE
        if path.is_file():
            return _text(path, _read(path, _MOST_TEMPLATE_BYTES))
        template = self._tokenizer_config.get("chat_template")
        if isinstance(template, list):
            named = [e for e in template if isinstance(e, dict) and e.get("name") == "default"]
            template = named[0].get("template") if named else None
        if isinstance(template, str) and len(template) > _MOST_TEMPLATE_BYTES:
            raise ModelFileError(
                self.path / "tokenizer_config.json",
                f"chat_template has {len(template)} characters; at most {_MOST_TEMPLATE_BYTES}",
            )
        return template if isinstance(template, str) else None

    def check_template(self) -> None:
        """Raises ModelFileError if the chat template, should there be one, is no template."""
        source = self.chat_template
        if source is None:
            return
        try:
            ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).parse(source)
        except TemplateError as error:
            name = _TEMPLATE if (self.path / _TEMPLATE).is_file() else "tokenizer_config.json"
            problem = f"the chat template does not compile: {_one_line(error)}"
            raise ModelFileError(self.path / name, problem) from error
        except RecursionError as error:
            raise ModelFileError(self.path, "the chat template is nested too deeply") from error

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
        content = _text(self.tokenizer_path, _read(self.tokenizer_path, _MOST_TOKENIZER_BYTES))
        try:
            tokenizer = Tokenizer.from_str(content)
        except BaseException as error:
            # The library raises bare Exception, and panics, which are none.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            problem = f"not a tokenizer: {_one_line(error)}"
            raise ModelFileError(self.tokenizer_path, problem) from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def integer(self, field: str, default: int | None = None, *, most: int = _LARGEST) -> int:
        """A positive integer of config.json; `default` where it is absent or null.

        Raises:
            ModelFileError: it is anything else, or absent without a default.
        """
        value = self.config.get(field)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ModelFileError(
                self.path / "config.json",
                f"{field} is {_told(value)}; it must be a positive integer, at most {most}",
            )
        return value

    def number(self, field: str, default: float) -> float:
        """A positive number of config.json; `default` where it is absent or null.

        Raises:
            ModelFileError: it is anything else.
        """
        value = self.config.get(field)
        if value is None:
            return default
        if not isinstance(value, int | float) or not 0 < value < 1e30:
            raise ModelFileError(
                self.path / "config.json", f"{field} is {_told(value)}; it must be positive"
            )
        return float(value)

    def _token(self, name: str, field: str, value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < self.vocab_size:
            return value
        bound = f"it must be a token, 0 to {self.vocab_size - 1}"
        raise ModelFileError(self.path / name, f"{field} is {_told(value)}; {bound}")

    @cached_property
    def _tokenizer_config(self) -> dict[str, Any]:
        return self._json("tokenizer_config.json", optional=True)

    def _json(self, name: str, *, optional: bool = False) -> dict[str, Any]:
        path = self.path / name
        if optional and not path.exists():
            return {}
        content = _read(path, _MOST_JSON_BYTES)
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(path, f"not readable as JSON: {_one_line(error)}") from error
        if not isinstance(value, dict):
            raise ModelFileError(path, "not a JSON object")
        return value


def _read(path: Path, most: int) -> bytes:
    """A whole file. Raises ModelFileError if there is none or it has more than `most` bytes."""
    try:
        size = path.stat().st_size
        if size > most:
            raise ModelFileError(path, f"it has {size} bytes; at most {most}")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(path, "the file is missing") from error
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from error


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(path, f"damaged: bad UTF-8 at byte {error.start}") from error


def _told(value: object) -> str:
    """A value as an error shows it: the start of it, on one line."""
    try:
        return f"{value!r:.80}"
    except ValueError:  # an integer of thousands of digits
        return "a huge integer"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
