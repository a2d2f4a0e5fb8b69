"""Prompts of a wanted length; no two begin alike, so that no cached prefix helps."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from weir_cli.errors import CommandError

Prompt = str | Sequence[int]

# Common words, each one token with its blank before it in most vocabularies.
_WORDS = """
time year people way day man thing woman life child world school state family student group
country problem hand part place case week company system program question work government number
night point home water room mother area money story fact month lot right study book eye job word
business issue side kind head house service friend father power hour game line end member law
car city community name president team minute idea
"""
_TRIES = 8


class Prompts(Protocol):
    """A source of prompts."""

    def make(self, tokens: int, index: int) -> Prompt:
        """A prompt of so many tokens; the same index gives the same."""


class WordPrompts:
    """Common words; a word is about a token. For servers whose tokenizer is not at hand."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._words = _WORDS.split()

    def make(self, tokens: int, index: int) -> Prompt:
        """See `Prompts`."""
        rng = random.Random(f"{self._seed}/{index}")
        return " ".join(rng.choice(self._words) for _ in range(tokens))


class IdPrompts:
    """Token ids at random: exactly as long as wanted, for servers that take them.

    Args:
        seed: of the lots.
        ids: that they are drawn from.
    """

    def __init__(self, seed: int, ids: Sequence[int]) -> None:
        self._seed = seed
        self._ids = ids

    def make(self, tokens: int, index: int) -> Prompt:
        """See `Prompts`."""
        rng = random.Random(f"{self._seed}/{index}")
        return [rng.choice(self._ids) for _ in range(tokens)]


class TextPrompts:
    """Words that a tokenizer makes exactly so many tokens of.

    Args:
        seed: of the lots.
        tokenizer: of the server's model.
    """

    def __init__(self, seed: int, tokenizer: Tokenizer) -> None:
        self._words = WordPrompts(seed)
        self._tokenizer = tokenizer

    def make(self, tokens: int, index: int) -> Prompt:
        """See `Prompts`; after a few tries the nearest length is taken."""
        text = str(self._words.make(tokens, index))
        for _ in range(_TRIES):
            ids = self._encode(text)
            if len(ids) == tokens:
                break
            if len(ids) > tokens:
                text = self._tokenizer.decode(ids[:tokens], skip_special_tokens=False)
            else:
                more = self._words.make(tokens - len(ids), index + 1)
                text = f"{text} {more}"
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file, or in a model's folder. Raises CommandError."""
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise CommandError(f"--tokenizer {file}: {error}") from None
