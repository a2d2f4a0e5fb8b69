"""Everything between a model's texts and its token ids."""

from dataclasses import dataclass
from functools import cached_property

from tokenizers import Encoding, Tokenizer

from weir_core.clock import Clock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.model_folder import ModelFolder
from weir_core.token_bytes import TokenBytes
from weir_gateway.text.chat import Chat
from weir_gateway.text.chat_template import ChatTemplate
from weir_gateway.text.control_tokens import ControlTokens, pieces_of
from weir_gateway.text.shared_prefix import SharedPrefixes
from weir_gateway.tools.call_format import format_of


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the worker gets it.

    Attributes:
        token_ids: the exact prompt.
        shared_tokens: leading tokens that any request of the tenant may share.
    """

    token_ids: list[int]
    shared_tokens: int


class ModelText:
    """Tokenizer and chat template of one model version; may be used from several threads."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        template: ChatTemplate | None,
        fingerprint: bytes,
        vocab_size: int,
        template_source: str = "",
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._prefixes = SharedPrefixes(template.render) if template else None
        self._template_source = template_source
        self.fingerprint = fingerprint
        self.vocab_size = vocab_size
        self.token_bytes = TokenBytes(tokenizer)
        added = tokenizer.get_added_tokens_decoder().values()
        special = {token.content for token in added if token.special}
        self._controls = ControlTokens(special)
        self.call_format = format_of(template_source, special)
        """How the model writes calls of tools; None when it is not known to."""

    @classmethod
    def load(cls, folder: ModelFolder, clock: Clock) -> "ModelText":
        """Reads tokenizer and template; blocks for some 0.3 s.

        Raises:
            WeirError: ENGINE_FAILED or TEMPLATE_FAILED, naming the file and the problem.
        """
        source = folder.chat_template
        return cls(
            folder.load_tokenizer(),
            template=ChatTemplate(source, folder.special_tokens, clock) if source else None,
            fingerprint=bytes.fromhex(folder.tokenizer_fingerprint),
            vocab_size=folder.vocab_size,
            template_source=source or "",
        )

    def writes_like(self, other: "ModelText") -> bool:
        """Whether it makes the same tokens of every request."""
        mine = self.fingerprint, self._template_source
        return mine == (other.fingerprint, other._template_source)

    def chat_prompt(self, tenant_id: str, chat: Chat, longest: int) -> Prompt:
        """Renders and tokenises a chat; the template alone holds the special tokens.

        Args:
            tenant_id: whose requests may share the head.
            chat: at least one message.
            longest: context of the model, tokens.

        Raises:
            WeirError: TEMPLATE_FAILED, CONTEXT_LENGTH_EXCEEDED for what is too long by far.
        """
        if self._template is None or self._prefixes is None:
            raise WeirError(
                Reason.TEMPLATE_FAILED,
                "the model has no chat template; send a plain prompt to completions instead",
                field="messages",
            )
        chat, mark = self._controls.parted(chat)
        rendered = self._template.render(chat)
        self._refuse_hopeless(rendered, longest, "messages")
        shared = self._prefixes.length(tenant_id, chat, rendered)
        if mark:
            return self._in_pieces(pieces_of(rendered, mark), shared)
        encoding = self._tokenizer.encode(rendered, add_special_tokens=False)
        return Prompt(encoding.ids, _whole_tokens(encoding, rendered, shared))

    def _in_pieces(self, pieces: list[str], shared: int) -> Prompt:
        """Tokenises what marks part, each a character of `shared`."""
        ids: list[int] = []
        shared_tokens = 0
        for piece in pieces:
            encoding = self._tokenizer.encode(piece, add_special_tokens=False)
            ids += encoding.ids
            shared_tokens += _whole_tokens(encoding, piece, shared)
            shared -= len(piece) + 1
        return Prompt(ids, shared_tokens)

    def text_prompt(self, text: str, shared_characters: int, longest: int) -> Prompt:
        """Tokenises a prompt as it is, with the special tokens that the tokenizer adds.

        Raises:
            WeirError: CONTEXT_LENGTH_EXCEEDED for what is too long by far.
        """
        self._refuse_hopeless(text, longest, "prompt")
        encoding = self._tokenizer.encode(text)
        return Prompt(encoding.ids, _whole_tokens(encoding, text, shared_characters))

    def ids_prompt(self, token_ids: list[int], field: str) -> Prompt:
        """A prompt that was tokenised by the caller.

        Raises:
            InvalidField: an id is not in the vocabulary.
        """
        size = self.vocab_size
        if min(token_ids) < 0 or max(token_ids) >= size:
            at, wrong = next((i, v) for i, v in enumerate(token_ids) if not 0 <= v < size)
            raise InvalidField(f"{field}[{at}]", wrong, f"a token id from 0 to {size - 1}")
        return Prompt(token_ids, 0)

    def decode(self, token_ids: list[int], *, special: bool = False) -> str:
        """The text of tokens; that of special ones is left out unless it is asked for."""
        return self._tokenizer.decode(token_ids, skip_special_tokens=not special)

    def token_texts(self, token_ids: list[int]) -> list[str]:
        """Tokens as the vocabulary spells them."""
        return [self._tokenizer.id_to_token(token_id) or "" for token_id in token_ids]

    @cached_property
    def _longest_token(self) -> int:
        """Most characters that one token stands for; 0 when the text is normalised first."""
        if self._tokenizer.normalizer is not None:
            return 0
        return max(len(token) for token in self._tokenizer.get_vocab(with_added_tokens=True))

    def _refuse_hopeless(self, text: str, longest: int, field: str) -> None:
        """Spares the tokenizer megabytes that can never fit."""
        most = self._longest_token * longest
        if most and len(text) > most:
            raise WeirError(
                Reason.CONTEXT_LENGTH_EXCEEDED,
                f"the prompt has {len(text)} characters, at least "
                f"{len(text) // self._longest_token} tokens; the model takes {longest} tokens of "
                "prompt and output together; shorten the prompt",
                field=field,
            )


def _whole_tokens(encoding: Encoding, text: str, characters: int) -> int:
    """Leading tokens that lie wholly within the first `characters` of `text`."""
    if characters <= 0:
        return 0
    if characters >= len(text):
        return len(encoding.ids)
    token = encoding.char_to_token(characters)
    if token is None:
        return sum(1 for _, end in encoding.offsets if end <= characters)
    return int(token)
