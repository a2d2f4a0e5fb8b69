"""Whether linear layers compute in fp32 or with 8-bit integers."""

import logging
from pathlib import Path
from typing import Literal

import torch

from weir_core.errors import InvalidField
from weir_worker.models.int8_record import Int8Record
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.parts import Parts
from weir_worker.models.rotation import Rotation
from weir_worker.parallel.ranks import Ranks

logger = logging.getLogger(__name__)

Precision = Literal["auto", "fp32", "int8"]


def uses_int8(
    wanted: Precision,
    folder: Path,
    config: LlamaConfig,
    parts: Parts,
    device: torch.device,
    ranks: Ranks,
) -> bool:
    """Whether the model's linear layers are of 8 bits.

    `auto` is 8 bits where a record proves that the model stays near its fp32 form.

    Raises:
        InvalidField: `int8` is wanted and the model or the device has no such form. Where only
            this build of torch lacks the kernels, fp32 takes its place, and a warning says so.
    """
    if wanted == "fp32":
        return False
    refusal = _refusal(config, device, ranks)
    if wanted == "int8" and refusal is not None:
        raise InvalidField("precision", "int8", f"fp32 or auto here: {refusal}")
    if refusal is None and parts.int8_method is None:
        refusal = "torch has no FBGEMM on this processor, and there are no compiled kernels"
        if wanted == "int8":
            logger.warning("computing in fp32 and not in int8: %s", refusal)
    if refusal is not None or wanted == "int8":
        return refusal is None
    return _proven(folder, str(parts.int8_method))


def _refusal(config: LlamaConfig, device: torch.device, ranks: Ranks) -> str | None:
    if device.type != "cpu":
        return f"int8 is built for the CPU, not for {device}"
    if ranks.size > 1:
        return "int8 is not built for tensor parallel models"
    return Rotation.refusal(config)


def _proven(folder: Path, method: str) -> bool:
    record = Int8Record.find(folder, method)
    if record is None:
        logger.info("computing in fp32: no record of int8 quality (%s) for %s", method, folder)
        return False
    logger.info(
        "int8 quality (%s): KL %.4f, top-1 %.3f; computing in %s",
        method,
        record.kl,
        record.top1,
        "int8" if record.good else "fp32",
    )
    return record.good
