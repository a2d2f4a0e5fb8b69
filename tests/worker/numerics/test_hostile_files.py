"""Whatever is in a model's files ends in a model or in one line, within bounded memory."""

import json
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tests.tiny_llama import tiny_config, write_tiny_gguf, write_tiny_llama
from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.models.check import check_model
from weir_worker.models.convert import convert_gguf
from weir_worker.models.details import gguf_details
from weir_worker.models.loader import load_model

_MOST_MEMORY = 96 << 20  # the tiny model takes 10 MB
_NUMBERS = st.sampled_from([0, 1, 31, 255, 1 << 16, (1 << 31) - 1, 1 << 32, 1 << 40, (1 << 64) - 1])
_FOLDER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@contextmanager
def bounded() -> Iterator[None]:
    """A refusal of one line passes; so does no refusal. Memory is held below a bound."""
    refusal: ModelFileError | None = None
    tracemalloc.start()
    try:
        yield
    except ModelFileError as error:
        refusal = error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert refusal is None or "\n" not in refusal.message
    assert refusal is None or len(refusal.problem) <= 600
    assert peak < _MOST_MEMORY


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("folder"))


def damaged(
    content: bytes, cut: int | None, changes: list[tuple[float, bytes]], head: int
) -> bytes:
    """Overwrite parts of the first `head` bytes, at fractions of it, and cut the end off."""
    changed = bytearray(content)
    for place, value in changes:
        at = int(place * (min(head, len(content)) - len(value)))
        changed[at : at + len(value)] = value
    return bytes(changed[:cut])


_CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.binary(min_size=1, max_size=4) | _NUMBERS.map(lambda number: struct.pack("<Q", number)),
    ),
    max_size=4,
)


@settings(max_examples=150)
@given(
    cut=st.none() | st.integers(0, 1 << 20), changes=_CHANGES, head=st.sampled_from([90, 12_000])
)
def test_a_gguf_file(
    gguf_file: Path, cut: int | None, changes: list[tuple[float, bytes]], head: int
) -> None:
    path = gguf_file.with_suffix(".damaged")
    content = gguf_file.read_bytes()
    path.write_bytes(damaged(content, cut, changes, head))
    with bounded():
        convert_gguf(path, gguf_file.with_suffix(".converted"))
        assert cut is None or cut >= len(content)


@settings(max_examples=100)
@given(cut=st.none() | st.integers(0, 1 << 20), changes=_CHANGES)
def test_a_safetensors_file(
    folder: Path, cut: int | None, changes: list[tuple[float, bytes]]
) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    try:
        path.write_bytes(damaged(content, cut, changes, 4_000))
        with bounded():
            load_model(folder)
    finally:
        path.write_bytes(content)


@settings(max_examples=100)
@given(name=st.sampled_from(_FOLDER_FILES), cut=st.none() | st.integers(0, 6_000), changes=_CHANGES)
def test_every_other_file_of_a_folder(
    folder: Path, name: str, cut: int | None, changes: list[tuple[float, bytes]]
) -> None:
    content = (folder / name).read_bytes()
    try:
        (folder / name).write_bytes(damaged(content, cut, changes, len(content)))
        with bounded():
            check_model(folder)
    finally:
        (folder / name).write_bytes(content)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | _NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)
_FIELDS = [
    *tiny_config(),
    *("rope_scaling", "rope_parameters", "layer_types", "sliding_window", "max_window_layers"),
    *(
        "use_sliding_window",
        "sliding_window_pattern",
        "query_pre_attn_scalar",
        "partial_rotary_factor",
    ),
]


@settings(max_examples=200)
@given(
    family=st.sampled_from(["llama", "mistral", "qwen2", "qwen3", "gemma3_text"]),
    values=st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=3),
)
def test_any_value_of_any_field(folder: Path, family: str, values: dict[str, Any]) -> None:
    path = folder / "config.json"
    content = path.read_text()
    try:
        path.write_text(json.dumps({**tiny_config(), "model_type": family, **values}))
        with bounded():
            load_model(folder)
    finally:
        path.write_text(content)


def _header(changes: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def rewritten(content: bytes) -> bytes:
        (size,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8 : 8 + size])
        changes(header)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + size :]

    return rewritten


def _twice(content: bytes) -> bytes:
    (size,) = struct.unpack_from("<Q", content)
    text = content[8 : 8 + size].decode().rstrip()
    entry = '"model.norm.weight":{"dtype":"F32","shape":[64],"data_offsets":[0,256]}'
    text = f"{text[:-1]},{entry}}}"
    return struct.pack("<Q", len(text)) + text.encode() + content[8 + size :]


_NORM = "model.norm.weight"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda content: struct.pack("<Q", 5 << 30) + content[8:],
            "model.safetensors: cannot be read",
        ),
        (lambda content: struct.pack("<Q", len(content)) + content[8:], "cannot be read"),
        (lambda content: b"", "model.safetensors: cannot be read"),
        (_twice, "cannot be read"),
        (_header(lambda h: h[_NORM].update(data_offsets=[0, 256])), "cannot be read"),
        (_header(lambda h: h[_NORM].update(shape=[1 << 40])), "cannot be read"),
        (
            _header(lambda h: h[_NORM].update(shape=[8, 8])),
            "shape [8, 8]; config.json demands [64]",
        ),
        (
            _header(lambda h: h[_NORM].update(dtype="I32")),
            f"tensor {_NORM} is of type I32; read are",
        ),
        (_header(lambda h: h.update({"x\ny": h.pop(_NORM)})), "tensor x y belongs to no supported"),
    ],
)
def test_a_hostile_header_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes], problem: str
) -> None:
    path = write_tiny_llama(tmp_path) / "model.safetensors"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ModelFileError) as refused:
        check_model(tmp_path)
    assert problem in refused.value.message
    assert "\n" not in refused.value.message


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    path = write_tiny_llama(tmp_path) / "model.safetensors"
    path.rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(
        ModelFileError, match=r"pytorch_model\.bin: weights in a pickle can run any"
    ):
        load_model(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "x.bin"}}')
    with pytest.raises(
        ModelFileError, match=r"shard 'x\.bin' lies outside the folder or is no saf"
    ):
        load_model(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    tensors = load_file(write_tiny_llama(tmp_path) / "model.safetensors")
    for name in ("a.safetensors", "b.safetensors"):
        save_file(tensors, tmp_path / name)
    weight_map = {"x": "a.safetensors", "y": "b.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelFileError, match="is in another shard too"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"split.count": 3.0}, "split.count is 3.0; files in parts are not read: merge them"),
        ({"tokenizer.ggml.eot_token_id": 4e9}, "eot_token_id is 4000000000.0; it must be 0 to 319"),
        ({"gemma3.embedding_length": 1.0, "general.architecture": "gemma3"}, "is 1.0; it must be"),
    ],
)
def test_a_gguf_file_that_cannot_be_served_is_refused_before_it_is_converted(
    tmp_path: Path, metadata: dict[str, str | float], problem: str
) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", metadata=metadata)
    with pytest.raises(ModelFileError) as refused:
        gguf_details(path)
    assert problem in refused.value.message


def test_a_context_beyond_all_memory_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path, overrides={"max_position_embeddings": 1 << 30})
    with pytest.raises(ModelFileError, match=r"max_position_embeddings is 1073741824; .* 2097152"):
        load_model(folder)


@pytest.mark.parametrize(
    ("name", "size"),
    [("config.json", 33 << 20), ("chat_template.jinja", 2 << 20), ("tokenizer.json", 513 << 20)],
)
def test_a_huge_file_is_not_read(tmp_path: Path, name: str, size: int) -> None:
    with (write_tiny_llama(tmp_path) / name).open("r+b") as file:
        file.truncate(size)  # a hole: it takes no room on disk
    with bounded(), pytest.raises(ModelFileError, match=f"it has {size} bytes; at most"):
        check_model(tmp_path)


def test_json_without_end_is_refused(tmp_path: Path) -> None:
    (write_tiny_llama(tmp_path) / "config.json").write_text("[" * 200_000)
    with pytest.raises(ModelFileError, match=r"config\.json: not readable as JSON"):
        ModelFolder(tmp_path)
