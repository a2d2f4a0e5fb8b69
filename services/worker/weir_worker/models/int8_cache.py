"""Keeps a turned model's rounded weights for later starts: turning takes ten times as long."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from weir_core.model_folder import ModelFileError
from weir_worker.models.int8_record import weights_digest
from weir_worker.models.manifest import Manifest

logger = logging.getLogger(__name__)

Tensors = dict[str, torch.Tensor]
# Another worker that starts makes the same meanwhile.
_LOCK_TIMEOUT_S = 120.0


class Int8Cache:
    """Tensors by name in `int8/METHOD` of a model folder; a context manager.

    What lies there is read if its manifest names these weights and the checksums of all files
    hold; else it is made anew, and appears when the context ends without an error. A folder
    that cannot be written is no error: nothing is kept.
    """

    def __init__(self, model: Path, method: str) -> None:
        """Keep the tensors of the model folder `model`; see `Parts.int8_method`."""
        self._model = model
        self._target = model / "int8" / method
        self._draft = self._target.with_name(f".{method}.draft")
        self._lock = FileLock(self._target.with_name(f".{method}.lock"))
        self._digest = ""
        self._valid = self._writing = False

    def __enter__(self) -> Self:
        """Raises ModelFileError if the model's weights cannot be read."""
        self._digest = weights_digest(self._model)
        self._valid = self._confirmed()
        if not self._valid:
            self._begin()
        return self

    def get(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """The tensors of that name, which may be views of a mapped file; `make` makes them."""
        if self._valid:
            try:
                return load_file(self._target / f"{name}.safetensors")
            except (OSError, SafetensorError) as error:
                logger.warning("making 8-bit weights anew: %s: %s", name, error)
        made = make()
        if self._writing:
            self._keep(name, made)
        return made

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let what was made appear, whole, unless loading failed."""
        try:
            if self._writing and kind is None:
                Manifest.of(self._draft, self._digest).write(self._draft)
                shutil.rmtree(self._target, ignore_errors=True)
                self._draft.rename(self._target)
        except (OSError, ModelFileError) as failure:
            self._give_up(failure)
        finally:
            if self._writing:
                shutil.rmtree(self._draft, ignore_errors=True)
            self._writing = False
            self._lock.release()

    def _begin(self) -> None:
        try:
            self._target.parent.mkdir(exist_ok=True)
            self._lock.acquire(timeout=_LOCK_TIMEOUT_S)
            self._valid = self._confirmed()  # another process may have made it meanwhile
            if self._valid:
                self._lock.release()
                return
            shutil.rmtree(self._draft, ignore_errors=True)  # of a process that was killed
            self._draft.mkdir()
            self._writing = True
        except (OSError, Timeout) as error:
            self._give_up(error)

    def _confirmed(self) -> bool:
        try:
            return Manifest.confirms(self._target, self._digest)
        except ModelFileError:  # a file that may not be read
            return False

    def _keep(self, name: str, made: Tensors) -> None:
        try:
            save_file(made, self._draft / f"{name}.safetensors")
        except (OSError, SafetensorError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        logger.info("8-bit weights are not kept for the next start: %s", error)
        if self._writing:
            shutil.rmtree(self._draft, ignore_errors=True)
        self._writing = False
