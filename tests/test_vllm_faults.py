"""Why vLLM failed, in one line: the shapes of its log and the knob that each names."""

from __future__ import annotations

import pytest

from leakgrid.providers.vllm_faults import FAULTS, explain

ERROR = "(EngineCore pid=812) ERROR 11-30 10:54:01 [core.py:1210] "

LOGS: dict[str, tuple[str, list[str], str]] = {
    "terms not accepted": (
        "gated model",
        [
            "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-2)",
            "Access to model meta/Big is restricted and you are not in the authorized list.",
            "OSError: You are trying to access a gated repo.",
        ],
        "accept its terms",
    ),
    "gated, without a token": (
        "gated model",
        [
            "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-2)",
            "Cannot access gated repo for url https://huggingface.co/meta/Big/resolve/main/config.json.",
            "Access to model meta/Big is restricted. You must have access to it and be "
            "authenticated to access it.",
        ],
        "HF_TOKEN",
    ),
    "a token that is none": (
        "token refused",
        ["huggingface_hub.errors.HfHubHTTPError: Invalid user token."],
        "valid HF_TOKEN",
    ),
    "a name that nobody has": (
        "no such model",
        [
            "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: R)",
            "Repository Not Found for url: https://huggingface.co/api/models/qwen/nope.",
            "OSError: qwen/nope is not a local folder and is not a valid model identifier listed "
            "on 'https://huggingface.co/models'",
        ],
        "spelling of model",
    ),
    "a folder that is not there": (
        "no such model",
        ["ValueError: Invalid repository ID or local directory specified: '/data/qwen'."],
        "folder that exists",
    ),
    "a branch that is not there": (
        "no such revision",
        ["OSError: v9 is not a valid git identifier (branch name, tag name or commit id)"],
        "revision v9 does not exist",
    ),
    "offline and never downloaded": (
        "not in the cache",
        [
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached "
            "snapshot folder for the specified revision on the local disk and outgoing traffic "
            "has been disabled."
        ],
        "HF_HUB_OFFLINE",
    ),
    "the disk": (
        "disk full",
        ["OSError: [Errno 28] No space left on device"],
        "HF_HOME",
    ),
    "a model from the future": (
        "unknown architecture",
        [
            "ValueError: Model architectures ['FutureForCausalLM'] are not supported for now. "
            "Supported architectures: dict_keys(['LlamaForCausalLM'])"
        ],
        "['FutureForCausalLM']",
    ),
    "transformers is too old": (
        "unknown architecture",
        [
            "ValueError: The checkpoint you are trying to load has model type `future` but "
            "Transformers does not recognize this architecture."
        ],
        "architecture future",
    ),
    "code of its own": (
        "custom code",
        ["ValueError: Loading m requires you to execute the file; pass `trust_remote_code=True`"],
        "--trust-remote-code",
    ),
    "nothing left": (
        "no memory left for the cache",
        [
            ERROR + "ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine."
        ],
        "raise memory",
    ),
    "one request does not fit": (
        "cache too small",
        [
            ERROR + "ValueError: To serve at least one request with the model's max seq len "
            "(131072), (16.0 GiB KV cache is needed, which is larger than the available KV cache "
            "memory (4.1 GiB). Based on the available memory, the estimated maximum model length "
            "is 33584. Try increasing `gpu_memory_utilization`."
        ],
        "131072 tokens: lower max_model_len to 33584 or less, or raise memory",
    ),
    "one request does not fit, told shorter": (
        "cache too small",
        [
            "ValueError: The model's max seq len (4096) is larger than the maximum number of "
            "tokens that can be stored in KV cache (3664)."
        ],
        "lower max_model_len, or raise memory",
    ),
    "a neighbour on the GPU": (
        "GPU memory taken",
        [
            "ValueError: Free memory on device cuda:0 (12.31/79.11 GiB) on startup is less than "
            "desired GPU memory utilization (0.92, 72.78 GiB). Decrease GPU memory utilization."
        ],
        "only 12.31 of the GPU's 79.11 GiB",
    ),
    "a neighbour on the machine": (
        "machine memory taken",
        [
            "ValueError: Available memory on node 0 (3.2/23.4 GiB) on startup is less than "
            "desired CPU memory utilization (0.92, 21.5 GiB)."
        ],
        "only 3.2 of the machine's 23.4 GiB",
    ),
    "cuda": (
        "out of GPU memory",
        ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has"],
        "lower memory",
    ),
    "cuda while warming up": (
        "out of GPU memory",
        [
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
            "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`"
        ],
        "--max-num-seqs",
    ),
    "no driver": (
        "no GPU",
        ["RuntimeError: Failed to infer device type, please set the environment variable"],
        "nvidia-smi",
    ),
    "no card": ("no GPU", ["RuntimeError: No CUDA GPUs are available"], "nvidia-smi"),
    "more cards than there are": (
        "too few GPUs",
        ["ValueError: World size (4) is larger than the number of available GPUs (2) in this node"],
        "tensor_parallel",
    ),
    "heads": (
        "too few GPUs",
        [
            "ValueError: Total number of attention heads (15) must be divisible by tensor parallel "
            "size (2)."
        ],
        "attention heads",
    ),
    "port": ("port taken", ["OSError: [Errno 98] Address already in use"], "port is taken"),
    "no template there": (
        "bad chat template",
        [
            "ValueError: The supplied chat template (x.jinja) looks like a file path, but it "
            "failed to be opened. Reason: [Errno 2] No such file or directory: 'x.jinja'"
        ],
        "chat_template",
    ),
    "template with a fault": (
        "bad chat template",
        ["jinja2.exceptions.TemplateSyntaxError: unexpected '}'"],
        "Jinja",
    ),
    "parser": (
        "unknown reasoning parser",
        ["KeyError: 'invalid reasoning parser: qwen9 (chose from { deepseek_r1,qwen3 })'"],
        "reasoning parser does not fit",
    ),
    "rank": (
        "adapter rank",
        ["ValueError: LoRA rank 64 is greater than max_lora_rank 16."],
        '"--max-lora-rank", "64"',
    ),
    "adapter": (
        "adapter",
        ["ValueError: Loading lora mine failed: No adapter found for /data/lora"],
        "PEFT",
    ),
    "too long": (
        "length beyond the model",
        [
            "ValueError: User-specified max_model_len (65536) is greater than the derived "
            "max_model_len (max_position_embeddings=32768 or model_max_length=None in model's "
            "config.json)."
        ],
        "65536 is more than the model was made for: at most 32768",
    ),
    "old card": (
        "dtype",
        [
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least "
            "8.0. Your Tesla T4 GPU has compute capability 7.5."
        ],
        'dtype = "half"',
    ),
    "two ways to quantise": (
        "quantisation",
        [
            "ValueError: Quantization method specified in the model config (gptq) does not match "
            "the quantization method specified in the `quantization` argument (awq)."
        ],
        "quantization",
    ),
    "flag": (
        "wrong flag",
        [
            "usage: vllm serve [model_tag] [options]",
            "vllm: error: unrecognized arguments: --no-such-flag",
        ],
        "unrecognized arguments: --no-such-flag",
    ),
    "value of a flag": (
        "wrong flag",
        ["api_server.py: error: argument --dtype: invalid choice: 'int3' (choose from 'auto')"],
        "argument --dtype",
    ),
    "torchvision": (
        "libraries do not fit",
        ["RuntimeError: operator torchvision::nms does not exist"],
        "environment is broken: install",
    ),
    "half an install": (
        "libraries do not fit",
        ["ModuleNotFoundError: No module named 'xgrammar'"],
        "broken (xgrammar)",
    ),
    "the CPU build": (
        "not installed as vllm",
        ["importlib.metadata.PackageNotFoundError: No package metadata was found for vllm"],
        "no distribution called vllm",
    ),
    "a seed and a long prompt on a CPU": (
        "seed on a CPU",
        [
            ERROR + "RuntimeError: CPU Generator does not use offset",
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack "
            "trace (above) for the root cause.",
        ],
        "--no-enable-chunked-prefill",
    ),
}

NOISE_BEFORE = [
    "INFO 11-30 10:53:22 [api_utils.py:286] non-default args: {'model': 'm', 'max_model_len': 8}",
    "(APIServer pid=30222) WARNING 11-30 10:53:34 [cpu.py:224] Triton is not installed.",
    "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 121.04it/s]",
]
NOISE_AFTER = [
    "(APIServer pid=30222) Traceback (most recent call last):",
    '(APIServer pid=30222)   File "/x/vllm/v1/engine/utils.py", line 982, in wait_for_engine',
    "(APIServer pid=30222) RuntimeError: Engine core initialization failed. See root cause above.",
    "resource_tracker: There appear to be 2 leaked shared_memory objects to clean up at shutdown",
]


@pytest.mark.parametrize("case", LOGS)
def test_a_log_is_explained_by_its_cause(case: str) -> None:
    name, log, words = LOGS[case]
    told = explain([*NOISE_BEFORE, *log, *NOISE_AFTER], 1)
    means = next(fault.means for fault in FAULTS if fault.name == name)
    assert told.startswith(means.partition("{")[0][:20]), told
    assert words in told
    assert "\n" not in told and "{" not in told and len(told) < 400


def test_every_fault_has_a_log() -> None:
    assert {name for name, _, _ in LOGS.values()} == {fault.name for fault in FAULTS}


@pytest.mark.parametrize("lines", [[], ["  "], NOISE_BEFORE, NOISE_BEFORE + NOISE_AFTER])
def test_ordinary_lines_are_no_fault(lines: list[str]) -> None:
    told = explain(lines)
    assert not any(told == fault.means for fault in FAULTS)


def test_what_is_not_known_is_told_by_its_last_error() -> None:
    assert explain([*NOISE_BEFORE, ERROR + "KeyError: 'layers.7'"], 1) == "KeyError: 'layers.7'"
    coloured = "\x1b[36m(Worker pid=3)\x1b[0;0m zmq.error.ZMQError: no peer"
    assert explain([coloured, "bye"], 1) == "zmq.error.ZMQError: no peer"
    assert explain([ERROR + "OddError: why", *NOISE_AFTER], 1) == "OddError: why"
    assert explain(["bye", ""], 1) == "bye"
    assert explain([], 3) == "it printed nothing"
    assert "SIGKILL" in explain(NOISE_BEFORE, -9)
