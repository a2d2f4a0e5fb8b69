"""Tokenizers and templates of every model version in the directory, loaded off the loop."""

import asyncio
import contextlib
from pathlib import Path

import structlog

from weir_core.clock import Clock
from weir_core.directory import DirectoryIndex
from weir_core.errors import Reason, WeirError
from weir_core.model_folder import ModelFolder
from weir_core.tasks import end_task
from weir_gateway.directory.follower import Directory
from weir_gateway.text.model_text import ModelText

_log = structlog.get_logger(__name__)


class ModelTexts:
    """Keeps one `ModelText` a folder; a folder that cannot be read is tried again.

    Args:
        directory: which folders are needed.
        clock: for templates.
        retry_s: between attempts to load a broken folder.
    """

    def __init__(self, directory: Directory, clock: Clock, *, retry_s: float = 5.0) -> None:
        self._directory = directory
        self._clock = clock
        self._retry_s = retry_s
        self._texts: dict[str, ModelText] = {}
        self._problems: dict[str, str] = {}
        self._wanted: set[str] = set()
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to load, and to follow the directory."""
        self._directory.on_change(self._on_change)
        self._task = asyncio.create_task(self._run(), name="model-texts")

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            await end_task(self._task)
            self._task = None

    def get(self, model: str, folder: str) -> ModelText:
        """The text of a folder.

        Raises:
            WeirError: NO_WORKER, it is not loaded (yet).
        """
        text = self._texts.get(folder)
        if text is None:
            why = "cannot be loaded" if folder in self._problems else "is still being loaded"
            raise WeirError(
                Reason.NO_WORKER,
                f"model {model!r} is not ready: its tokenizer {why} on this gateway",
                retry_after_s=2.0,
            )
        return text

    def loaded(self, folder: str) -> ModelText | None:
        """The text of a folder; None while it is not loaded."""
        return self._texts.get(folder)

    @property
    def settled(self) -> bool:
        """Whether every folder of some version of the directory was tried."""
        return self._settled.is_set()

    async def wait_settled(self, timeout_s: float) -> bool:
        """Waits until every folder was tried; False when that took longer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        return self._settled.is_set()

    def _on_change(self, index: DirectoryIndex) -> None:
        self._wanted = {version.folder for model in index.models for version in model.versions}
        for folder in set(self._texts) - self._wanted:
            del self._texts[folder]
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            for folder in sorted(self._wanted - set(self._texts)):
                await self._load(folder)
            if self._directory.index is not None:
                self._settled.set()
            wait_s = self._retry_s if self._wanted - set(self._texts) else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def _load(self, folder: str) -> None:
        try:
            text = await asyncio.to_thread(self._read, folder)
        except WeirError as error:
            if self._problems.get(folder) != error.message:
                _log.error("model_text_failed", folder=folder, problem=error.message)
            self._problems[folder] = error.message
            return
        self._problems.pop(folder, None)
        if folder in self._wanted:
            self._texts[folder] = text
            _log.info("model_text_loaded", folder=folder)

    def _read(self, folder: str) -> ModelText:
        return ModelText.load(ModelFolder(Path(folder)), self._clock)
