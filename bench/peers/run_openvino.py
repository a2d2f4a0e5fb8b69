"""OpenVINO GenAI with weights in int8, continuous batching."""

import itertools
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.peers.runner import serve, take_stdout

_THREADS = {"INFERENCE_NUM_THREADS": 2}


def main(model_folder: str) -> None:
    answers = take_stdout()
    numpy: Any = import_module("numpy")
    openvino: Any = import_module("openvino")
    genai: Any = import_module("openvino_genai")
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 2
    scheduler.max_num_seqs = 64
    scheduler.max_num_batched_tokens = 512
    scheduler.dynamic_split_fuse = True
    pipeline = genai.ContinuousBatchingPipeline(model_folder, scheduler, "CPU", _THREADS)
    numbers = itertools.count()

    def batch(prompts: list[list[int]], output: int) -> None:
        config = genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = output
        config.ignore_eos, config.do_sample = True, False
        # Kept until the end: a dropped handle ends its request.
        handles = []
        for ids in prompts:
            tensor = openvino.Tensor(numpy.array([ids], dtype=numpy.int64))
            handles.append(pipeline.add_request(next(numbers), tensor, config))
        while pipeline.has_non_finished_requests():
            pipeline.step()

    def logits(token_ids: list[int]) -> Any:
        """Of the same weights through the plain model, as the pipeline gives none."""
        core = openvino.Core()
        model = core.compile_model(Path(model_folder) / "openvino_model.xml", "CPU", _THREADS)
        count = len(token_ids)
        inputs = {
            "input_ids": numpy.array([token_ids], dtype=numpy.int64),
            "attention_mask": numpy.ones((1, count), dtype=numpy.int64),
            "position_ids": numpy.arange(count, dtype=numpy.int64)[None],
            "beam_idx": numpy.zeros(1, dtype=numpy.int32),
        }
        return model.create_infer_request().infer(inputs)["logits"][0].astype(numpy.float32)

    serve(answers, batch, logits)


if __name__ == "__main__":
    main(sys.argv[1])
