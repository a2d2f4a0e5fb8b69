from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.gateway.harness import CHAT_TEMPLATE, write_model_folder
from weir_core.clock import ManualClock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.model_folder import ModelFolder
from weir_gateway.text.chat import Chat, ChatMessage
from weir_gateway.text.chat_template import ChatTemplate
from weir_gateway.text.model_text import ModelText
from weir_gateway.text.shared_prefix import SharedPrefixes

CLOCK = ManualClock(1_795_959_000_000_000)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> ModelText:
    folder = write_model_folder(tmp_path_factory.mktemp("model"))
    return ModelText.load(ModelFolder(folder), CLOCK)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = write_model_folder(tmp_path_factory.mktemp("tokenizer"))
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def chat(*turns: tuple[str, str]) -> Chat:
    return Chat(tuple(ChatMessage(role, content) for role, content in turns))


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, {"eos_token": "<eos>"}, CLOCK)


def shared_text(text: ModelText, tokenizer: Tokenizer, tenant: str, c: Chat) -> str:
    prompt = text.chat_prompt(tenant, c, 10_000)
    shared = prompt.token_ids[: prompt.shared_tokens]
    return str(tokenizer.decode(shared, skip_special_tokens=False))


def test_a_chat_is_rendered_and_tokenised_without_more_special_tokens(
    text: ModelText, tokenizer: Tokenizer
) -> None:
    prompt = text.chat_prompt("t", chat(("system", "Be brief."), ("user", "你好 😀")), 10_000)
    rendered = tokenizer.decode(prompt.token_ids, skip_special_tokens=False)
    assert rendered == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n你好 😀<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (
            [("system", "Be brief."), ("user", "hello")],
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n",
        ),
        ([("user", "hello")], "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n"),
        # A user turn that begins like a probe must not lengthen the shared part.
        ([("user", "A b c")], "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n"),
        ([("user", "😀")], "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n"),
        (
            [("system", "😀"), ("developer", "x"), ("user", "y")],
            "<|im_start|>system\n😀<|im_end|>\n<|im_start|>system\nx<|im_end|>\n<|im_start|>user\n",
        ),
    ],
)
def test_the_shared_prefix_ends_before_the_first_users_text(
    text: ModelText, tokenizer: Tokenizer, turns: list[tuple[str, str]], expected: str
) -> None:
    assert shared_text(text, tokenizer, "t", chat(*turns)) == expected


def test_a_chat_that_goes_on_otherwise_shares_nothing_of_its_turns(
    text: ModelText, tokenizer: Tokenizer
) -> None:
    shared = shared_text(text, tokenizer, "t", chat(("system", "s"), ("assistant", "secret")))
    assert "secret" not in shared
    assert "assistant" not in shared


def test_a_template_whose_head_depends_on_the_user_shares_nothing() -> None:
    prefixes = SharedPrefixes(
        template("{{ messages[-1].content }}|{{ messages[0].content }}").render
    )
    c = chat(("system", "head"), ("user", "A question"))
    assert prefixes.length("t", c, "A question|head") == 0


def test_prefixes_are_bounded_and_kept_by_tenant() -> None:
    rendered: list[str] = []
    plain = template(CHAT_TEMPLATE)

    def render(c: Chat) -> str:
        rendered.append(c.messages[0].content)
        return plain.render(c)

    prefixes = SharedPrefixes(render)
    c = chat(("system", "same"), ("user", "x"))
    text = plain.render(c)
    assert prefixes.length("one", c, text) == prefixes.length("one", c, text) > 0
    assert rendered.count("same") == 2
    prefixes.length("two", c, text)
    assert rendered.count("same") == 4
    for n in range(70):
        prefixes.length("two", chat(("system", f"s{n}"), ("user", "x")), "")
    prefixes.length("one", c, text)
    assert rendered.count("same") == 4
    prefixes.length("two", c, text)
    assert rendered.count("same") == 6


def test_a_declared_prefix_counts_whole_tokens_only(text: ModelText) -> None:
    assert text.text_prompt("hello", 0, 100).shared_tokens == 0
    assert text.text_prompt("hello", 3, 100).shared_tokens == 3
    assert text.text_prompt("hello", 5, 100).shared_tokens == 5
    # Four tokens of one character: all or none of it.
    assert text.text_prompt("a😀b", 1, 100).shared_tokens == 1
    assert text.text_prompt("a😀b", 2, 100).shared_tokens == 5


def test_token_ids_are_checked_against_the_vocabulary(text: ModelText) -> None:
    assert text.ids_prompt([0, 258], "prompt").token_ids == [0, 258]
    for ids in ([0, 259], [-1], [2**63]):
        with pytest.raises(InvalidField) as caught:
            text.ids_prompt(ids, "prompt")
        assert "prompt[" in caught.value.message
        assert "0 to 258" in caught.value.message


def test_megabytes_that_cannot_fit_are_refused_before_they_are_tokenised(text: ModelText) -> None:
    with pytest.raises(WeirError) as caught:
        text.text_prompt("x" * 5_000_000, 0, 100)
    assert caught.value.reason is Reason.CONTEXT_LENGTH_EXCEEDED
    assert "5000000 characters" in caught.value.message
    assert "100 tokens" in caught.value.message


def test_helpers_of_templates() -> None:
    source = (
        "{{ strftime_now('%Y') }} {{ tools | tojson }} {{ eos_token }} {{ add_generation_prompt }}"
    )
    c = Chat((ChatMessage("user", "x"),), ({"name": "<b>&ü"},))
    assert template(source).render(c) == '2026 [{"name": "<b>&ü"}] <eos> True'


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].nothing.more }}", "refused the messages"),
        ("{{ messages[9] + 1 }}", "chat template"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "chat template"),
        ("{{ messages.append(1) }}", "chat template"),
        (
            "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
            "more than 1000000 characters",
        ),
        ("{% for i in range(1000000) %}x{% endfor %}", "chat template"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ],
)
def test_what_a_template_does_wrong_is_the_requests_error(source: str, told: str) -> None:
    with pytest.raises(WeirError) as caught:
        template(source).render(chat(("user", "my secret question")))
    assert caught.value.reason is Reason.TEMPLATE_FAILED
    assert caught.value.wire.http == 400
    assert told in caught.value.message
    assert "secret" not in caught.value.message


def test_a_template_that_never_ends_is_stopped() -> None:
    source = (
        "{% for i in range(90000) %}{% for j in range(90000) %}{{ '' }}{% endfor %}{% endfor %}"
    )
    with pytest.raises(WeirError, match="longer than"):
        template(source).render(chat(("user", "x")))


def test_a_broken_template_is_an_error_of_the_model() -> None:
    with pytest.raises(WeirError, match="does not compile"):
        template("{% for %}")


def test_a_model_without_template_takes_prompts_alone(tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path)
    (folder / "chat_template.jinja").unlink()
    text = ModelText.load(ModelFolder(folder), CLOCK)
    with pytest.raises(WeirError, match="no chat template"):
        text.chat_prompt("t", chat(("user", "x")), 100)
    assert len(text.text_prompt("x", 0, 100).token_ids) == 1
