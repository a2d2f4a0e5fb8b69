"""Chat templates: Jinja from a model's author, run in a sandbox with bounds.

The environment is that of Hugging Face transformers (`trim_blocks`, `lstrip_blocks`,
`raise_exception`, `strftime_now`, a `tojson` that does not escape HTML), so that templates
written for it give the same text.
"""

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from jinja2 import TemplateError

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.text.bounded_environment import BoundedEnvironment
from weir_gateway.text.chat import Chat

_MIN_OUTPUT = 1_000_000
_OUTPUT_PER_INPUT = 4
_MAX_SECONDS = 2.0
_LONGEST_TOLD = 200
_PIECES_A_LOOK = 64


class ChatTemplate:
    """One compiled template.

    Args:
        source: Jinja source.
        special_tokens: `bos_token`, `eos_token` and kin with their texts.
        clock: what `strftime_now` reads.

    Raises:
        WeirError: TEMPLATE_FAILED, the source does not compile.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str], clock: Clock) -> None:
        environment = self._environment = BoundedEnvironment()
        environment.add_filter("tojson", _tojson)
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: _now(clock).strftime(form)
        self._special_tokens = dict(special_tokens)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise WeirError(
                Reason.TEMPLATE_FAILED, f"the chat template does not compile: {error.message}"
            ) from None
        # Each rendering copies them; of the chain of mappings that Jinja makes that takes long.
        self._template.globals = dict(self._template.globals)

    def render(self, chat: Chat) -> str:
        """The prompt for the next assistant turn.

        Raises:
            WeirError: TEMPLATE_FAILED, the template refused the messages, broke, or went over
                its bounds (4 times the input, at least 1,000,000 characters; 2 s).
        """
        longest = max(_MIN_OUTPUT, _OUTPUT_PER_INPUT * chat.size)
        pieces = self._template.generate(
            messages=[message.for_template() for message in chat.messages],
            tools=[dict(tool) for tool in chat.tools] or None,
            add_generation_prompt=True,
            **self._special_tokens,
        )
        try:
            with self._environment.bounds(_MAX_SECONDS, longest):
                return _collect(pieces, longest)
        except WeirError:
            raise
        except TemplateError as error:
            told = (error.message or type(error).__name__)[:_LONGEST_TOLD]
            raise _failed(f"the chat template refused the messages: {told}") from None
        except Exception as error:
            # Its text may quote the prompt.
            raise _failed(
                f"the chat template failed on these messages ({type(error).__name__})"
            ) from None


def _collect(pieces: Iterable[str], longest: int) -> str:
    parts: list[str] = []
    length = 0
    ends_at = time.monotonic() + _MAX_SECONDS
    for count, piece in enumerate(pieces, 1):
        parts.append(piece)
        length += len(piece)
        if length > longest:
            raise _failed(f"the chat template made more than {longest} characters")
        if count % _PIECES_A_LOOK == 0 and time.monotonic() > ends_at:
            raise _failed(f"the chat template ran longer than {_MAX_SECONDS} s")
    return "".join(parts)


def _failed(message: str) -> WeirError:
    return WeirError(Reason.TEMPLATE_FAILED, message, field="messages")


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now_us() / 1_000_000, UTC)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
