"""Compiles the attention kernels for a GPU that need not be there: `compile_kernels.py 90`.

Prints the bytes of shared memory of each.
"""

import sys
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from weir_worker.attention import triton_kernel
from weir_worker.attention.site import AttentionSite
from weir_worker.attention.triton_paged import TritonShape

_FP32 = ("part_ptr", "peak_ptr", "sum_ptr")


def main(capability: int) -> None:
    target = GPUTarget("cuda", capability, 32)
    site = AttentionSite(
        device=torch.device("cuda"),
        dtype=torch.bfloat16,
        num_heads=12,
        num_kv_heads=4,
        head_dim=128,
        block_size=16,
    )
    shape = TritonShape.of(site)
    for rows, parts, warps in ((shape.short_rows, 16, 4), (shape.long_rows, 1, shape.long_warps)):
        source = _source(triton_kernel.attend_kernel, shape, rows, parts)
        print(_compiled(source, target, warps))
    print(_compiled(_source(triton_kernel.join_kernel, shape, shape.short_rows, 16), target, 4))


def _compiled(source: Any, target: GPUTarget, warps: int) -> int:
    options = {"num_warps": warps, "num_stages": 2}
    return int(triton.compile(source, target=target, options=options).metadata.shared)


def _source(kernel: Any, shape: TritonShape, rows: int, parts: int) -> Any:
    constants = {
        "HEAD_DIM": shape.head_dim,
        "PADDED_DIM": shape.padded_dim,
        "GROUP": shape.group,
        "BLOCK_M": rows,
        "BLOCK_N": shape.keys,
        "BLOCK_SIZE": 16,
        "PARTS": parts,
        "PADDED_PARTS": 16,
        "LEAST_TILES": 4,
        "WIDEN": False,
    }
    names = kernel.arg_names
    signature = {name: _kind(name, name in constants) for name in names}
    values = {(names.index(name),): x for name, x in constants.items() if name in names}
    return ASTSource(fn=kernel, signature=signature, constexprs=values)


def _kind(name: str, constant: bool) -> str:
    if constant:
        return "constexpr"
    if name in _FP32:
        return "*fp32"
    if name in ("output_ptr", "q_ptr", "k_ptr", "v_ptr"):
        return "*bf16"
    return "*i32" if name.endswith("_ptr") else "fp32" if name == "scale" else "i32"


if __name__ == "__main__":
    main(int(sys.argv[1]))
