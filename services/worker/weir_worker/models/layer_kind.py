"""Which layers see all tokens and which the last ones alone, and how each rotates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.models.rope import RopeParameters, UnsupportedRope

_FULL, _SLIDING = "full_attention", "sliding_attention"
# What Hugging Face's classes assume where config.json is silent.
_WINDOW, _FULL_LAYERS_BELOW, _PATTERN = 4096, 28, 6
_GLOBAL_THETA, _LOCAL_THETA = 1_000_000.0, 10_000.0


@dataclass(frozen=True, slots=True)
class LayerKind:
    """How one layer attends.

    Attributes:
        window: last tokens that a token sees, itself included; None: all.
        rope: its rotary frequencies.
    """

    window: int | None
    rope: RopeParameters


def layer_kinds(folder: ModelFolder, num_layers: int) -> tuple[LayerKind, ...]:
    """The kind of every layer, from config.json.

    Raises:
        ModelFileError: a field is not what it must be, or of a kind that is not built.
    """
    names = _names(folder, num_layers)
    window = _window(folder) if _SLIDING in names else None
    try:
        kinds = {
            _FULL: LayerKind(None, _rope(folder, _FULL)),
            _SLIDING: LayerKind(window, _rope(folder, _SLIDING)),
        }
    except UnsupportedRope as error:
        raise ModelFileError(folder.path / "config.json", str(error)) from error
    return tuple(kinds[name] for name in names)


def _names(folder: ModelFolder, num_layers: int) -> list[str]:
    given = folder.config.get("layer_types")
    if given is None:
        return [_SLIDING if slides else _FULL for slides in _sliding(folder, num_layers)]
    if not isinstance(given, list) or len(given) != num_layers:
        problem = f"layer_types is {given!r:.80}; it must name all {num_layers} layers"
        raise ModelFileError(folder.path / "config.json", problem)
    for name in given:
        if name not in (_FULL, _SLIDING):
            problem = f"layer_types holds {name!r:.80}; built are {_FULL} and {_SLIDING}"
            raise ModelFileError(folder.path / "config.json", problem)
    return given


def _sliding(folder: ModelFolder, num_layers: int) -> list[bool]:
    """Whether each layer has a window, where config.json does not list them."""
    config, family = folder.config, folder.architecture
    if family == "gemma3_text":
        pattern = folder.integer("sliding_window_pattern", _PATTERN)
        return [bool((layer + 1) % pattern) for layer in range(num_layers)]
    if family == "mistral":
        return [config.get("sliding_window", _WINDOW) is not None] * num_layers
    if family.startswith("qwen") and config.get("use_sliding_window"):
        first = config.get("max_window_layers", _FULL_LAYERS_BELOW)
        if not isinstance(first, int) or first < 0:
            problem = f"max_window_layers is {first!r:.80}; it must be an integer, 0 or more"
            raise ModelFileError(folder.path / "config.json", problem)
        return [layer >= first for layer in range(num_layers)]
    return [False] * num_layers


def _window(folder: ModelFolder) -> int | None:
    """The window; None where it hides nothing."""
    window = folder.integer("sliding_window", _WINDOW)
    return window if window < folder.max_context else None


def _rope(folder: ModelFolder, kind: str) -> RopeParameters:
    """The rotary frequencies of the layers of a kind.

    Gemma's config.json names them by kind since version 5 of Hugging Face's library; before,
    `rope_local_base_freq` was that of the layers with a window, which are never scaled.
    """
    config = folder.config
    named = config.get("rope_parameters")
    if isinstance(named, Mapping) and (_FULL in named or _SLIDING in named):
        default = _GLOBAL_THETA if kind == _FULL else _LOCAL_THETA
        return RopeParameters.from_config(_given(config, named.get(kind), default))
    if folder.architecture != "gemma3_text":
        return RopeParameters.from_config(config)
    if kind == _SLIDING:
        local = {"rope_theta": config.get("rope_local_base_freq")}
        return RopeParameters.from_config(_given(config, local, _LOCAL_THETA))
    theta = {"rope_theta": config.get("rope_theta") or _GLOBAL_THETA}
    return RopeParameters.from_config({**config, **theta})


def _given(config: Mapping[str, Any], parameters: Any, theta: float) -> dict[str, Any]:
    scaling = parameters if isinstance(parameters, Mapping) else {}
    return {**config, "rope_scaling": None, "rope_theta": theta, "rope_parameters": scaling}
