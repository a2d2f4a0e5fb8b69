"""vLLM on a CPU in fp32 (bf16 is emulated where AVX-512 lacks it)."""

import os
import sys
from importlib import import_module
from typing import Any

from bench.peers.runner import serve, take_stdout

_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "4",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "2",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


def main(model_folder: str) -> None:
    answers = take_stdout()
    # Read when vLLM is imported.
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    vllm: Any = import_module("vllm")
    engine = vllm.LLM(
        model_folder,
        dtype="float32",
        max_model_len=2048,
        enforce_eager=True,
        max_num_seqs=64,
        enable_prefix_caching=False,
    )

    def batch(prompts: list[list[int]], output: int) -> None:
        sampling = vllm.SamplingParams(temperature=0, max_tokens=output, ignore_eos=True)
        asked = [{"prompt_token_ids": ids} for ids in prompts]
        engine.generate(asked, sampling, use_tqdm=False)

    serve(answers, batch)


# It starts processes that import this module again.
if __name__ == "__main__":
    main(sys.argv[1])
