"""Detokenising: all deltas together are what decoding everything at once gives."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.tiny_llama import tiny_tokenizer
from weir_worker.engine.null_folder import null_tokenizer
from weir_worker.text import DetokenizerFactory, OutputText, StopMatcher, detokenizer_factory
from weir_worker.text.byte_level import ByteLevelDetokenizerFactory
from weir_worker.text.windowed import WindowedDetokenizerFactory

TEXTS = [
    "plain English, with punctuation.",
    "emoji 😀😃 and 👩‍👩‍👧‍👦 (ZWJ) and flags 🇩🇪",
    "中文字符，日本語テキスト",
    "한국어 텍스트 각",
    "हिन्दी नमस्ते",
    "mixed ünïcödé\n\ttabs\r\n",
    "",
]


def metaspace_tokenizer() -> Tokenizer:
    """Like Llama 2: words marked by U+2581, bytes as a fallback, a leading space stripped."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "▁a", "▁word", "word", *"abcdefghijklmnopqrstuvwxyz,."]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    merges = [("▁", "a")]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<s>", "</s>")])
    return tokenizer


TOKENIZERS = {
    "bytes": null_tokenizer(),
    "tiny_llama": tiny_tokenizer(),
    "metaspace": metaspace_tokenizer(),
}


def factories(tokenizer: Tokenizer) -> list[DetokenizerFactory]:
    found = detokenizer_factory(tokenizer)
    windowed = WindowedDetokenizerFactory(tokenizer)
    return [windowed] if isinstance(found, WindowedDetokenizerFactory) else [found, windowed]


def pieces_of(factory: DetokenizerFactory, prompt: list[int], output: list[int]) -> list[str]:
    detokenizer = factory.open(prompt)
    return [*(detokenizer.push(token) for token in output), detokenizer.flush()]


def test_byte_level_tokenizers_take_the_fast_path() -> None:
    assert isinstance(detokenizer_factory(TOKENIZERS["bytes"]), ByteLevelDetokenizerFactory)
    assert isinstance(detokenizer_factory(TOKENIZERS["metaspace"]), WindowedDetokenizerFactory)


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", TEXTS)
def test_deltas_are_the_full_text_and_never_hold_half_a_character(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    for factory in factories(tokenizer):
        pieces = pieces_of(factory, [], ids)
        assert "".join(pieces) == tokenizer.decode(ids)
        assert "\ufffd" not in "".join(pieces)


@pytest.mark.parametrize("name", ["bytes", "tiny_llama"])
@pytest.mark.parametrize("text", TEXTS)
def test_cut_at_any_token_the_deltas_are_the_decoded_text(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    for factory in factories(tokenizer):
        for end in range(len(ids)):
            assert "".join(pieces_of(factory, [], ids[:end])) == tokenizer.decode(ids[:end])


def test_cut_byte_fallback_emits_one_mark_and_repeats_nothing() -> None:
    tokenizer = TOKENIZERS["metaspace"]
    ids = tokenizer.encode("a 😀", add_special_tokens=False).ids
    (factory,) = factories(tokenizer)
    assert "".join(pieces_of(factory, [], ids)) == "a 😀"
    cut = "".join(pieces_of(factory, [], [*ids, ids[-4], ids[-3]]))
    assert cut == "a 😀\ufffd"


@pytest.mark.parametrize("name", TOKENIZERS)
def test_leading_space_of_the_first_word_survives(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode("a word, a word", add_special_tokens=False).ids
    whole = tokenizer.decode(ids)
    for factory in factories(tokenizer):
        for split in range(1, len(ids)):
            before = tokenizer.decode(ids[:split])
            assert before + "".join(pieces_of(factory, ids[:split], ids[split:])) == whole


def test_character_begun_in_the_prompt_is_completed() -> None:
    ids = list("😀".encode())
    for factory in factories(TOKENIZERS["bytes"]):
        assert "".join(pieces_of(factory, ids[:2], ids[2:])).endswith("😀")


@pytest.mark.parametrize("name", TOKENIZERS)
def test_special_tokens_and_ids_outside_the_vocabulary_have_no_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode("word", add_special_tokens=False).ids
    special = next(i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special)
    noise = [special, 5_000_000, 2**32 + 1, -1]
    for factory in factories(tokenizer):
        shuffled = [*noise[:2], *ids[:1], *noise[2:], *ids[1:], special]
        assert "".join(pieces_of(factory, [], shuffled)) == "word"


def test_added_token_with_a_space_is_spelled_out() -> None:
    tokenizer = null_tokenizer()
    tokenizer.add_tokens([AddedToken("< end of Ω >", special=False)])
    ids = [97, tokenizer.get_vocab_size() - 1, 98]
    for factory in factories(tokenizer):
        assert "".join(pieces_of(factory, [], ids)) == tokenizer.decode(ids)


@given(st.lists(st.integers(0, 319), max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_tokens_decode_as_at_once(ids: list[int]) -> None:
    tokenizer = TOKENIZERS["tiny_llama"]
    factory = detokenizer_factory(tokenizer)
    assert "".join(pieces_of(factory, [], ids)) == tokenizer.decode(ids)


def test_endless_broken_bytes_do_not_grow_the_window() -> None:
    tokenizer = TOKENIZERS["bytes"]
    detokenizer = WindowedDetokenizerFactory(tokenizer).open([])
    text = "".join(detokenizer.push(0x80) for _ in range(1000))
    assert len(detokenizer._ids) < 64
    assert text + detokenizer.flush() == "\ufffd" * 1000


STOPS = ["DEFGHIJ"]


def streamed(stops: list[str], pieces: list[str]) -> tuple[list[str], bool]:
    matcher = StopMatcher(stops)
    out = []
    for piece in pieces:
        text, stopped = matcher.push(piece)
        out.append(text)
        if stopped:
            return out, True
    return [*out, matcher.flush()], False


def test_stop_split_over_pieces_lets_nothing_out() -> None:
    out, stopped = streamed(STOPS, ["ABC", "DEF", "G", "HI", "JKL"])
    assert stopped
    assert out == ["ABC", "", "", "", ""]


def test_only_a_possible_beginning_is_held_back() -> None:
    out, stopped = streamed(STOPS, ["ABCDE", "X", "DEFGH"])
    assert not stopped
    assert out == ["ABC", "DEX", "", "DEFGH"]


def test_held_text_that_begins_again_is_matched() -> None:
    out, stopped = streamed(["aab"], ["a", "a", "a", "b"])
    assert stopped
    assert "".join(out) == "a"


@pytest.mark.parametrize(
    ("stops", "text", "before"),
    [
        (["cd", "bcde"], "abcdef", "ab"),  # ends first, though it starts later
        (["cd", "bcd"], "abcdef", "a"),  # together: nothing of either is emitted
        (["bcd", "cd"], "abcdef", "a"),
        (["\n\n", "."], "x.\n\n", "x"),
    ],
)
def test_earliest_ending_match_wins(stops: list[str], text: str, before: str) -> None:
    assert streamed(stops, [text]) == ([before], True)
    assert "".join(streamed(stops, list(text))[0]) == before


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    st.text("abc", max_size=30),
    st.integers(0, 2**32),
)
@settings(max_examples=300)
def test_any_split_gives_the_same_text(stops: list[str], text: str, seed: int) -> None:
    rng = random.Random(seed)
    pieces, rest = [], text
    while rest:
        cut = rng.randint(1, len(rest))
        pieces.append(rest[:cut])
        rest = rest[cut:]
    out, stopped = streamed(stops, pieces)
    ends = sorted(
        (index + len(stop), index)
        for stop in stops
        for index in range(len(text))
        if text.startswith(stop, index)
    )
    assert stopped == bool(ends)
    # The pieces may show a match as late as its own end, never later.
    assert "".join(out) == (text[: ends[0][1]] if ends else text)


def test_text_held_by_both_stages_comes_out_at_the_end() -> None:
    factory = detokenizer_factory(TOKENIZERS["bytes"])
    output = OutputText(factory.open([]), ["stop!"])
    ids = [*b"go st", 0xF0, 0x9F]
    assert "".join(output.push(token)[0] for token in ids) == "go "
    assert output.flush() == "st\ufffd"
