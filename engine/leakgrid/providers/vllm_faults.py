"""Why vLLM did not start, or died: one line with the knob to turn, from what it printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A mark in the log, and what it means; ``{0}``, ``{1}``... are the pattern's groups."""

    name: str
    pattern: re.Pattern[str]
    means: str


def _fault(name: str, pattern: str, means: str) -> Fault:
    return Fault(name, re.compile(pattern), means)


# The first that is found anywhere in the log explains it, so what is most telling stands first:
# a Hub error ends in "no such model", an engine that died in "engine core failed".
FAULTS = (
    _fault(
        "gated model",
        r"(?:access to model (\S+) is restricted|(\S+) is a gated repository"
        r"|You are trying to access a gated repo|GatedRepoError|Cannot access gated repo)",
        "the model is gated: accept its terms on its page at huggingface.co, then export HF_TOKEN "
        "with a token of that account",
    ),
    _fault(
        "token refused",
        r"(?:Invalid user token|User Access Token .{0,40} is expired|Invalid credentials in "
        r"Authorization header)",
        "the Hub refuses the token: export a valid HF_TOKEN, or unset it for a public model",
    ),
    _fault(
        "no such revision",
        r"(\S+) is not a valid git identifier|RevisionNotFoundError",
        "the revision {0} does not exist in this repository: see the branches, tags and commits on "
        "the model's page and set revision",
    ),
    _fault(
        "no such model",
        r"(?:(\S+) is not a local folder (?:and is not|or)|RepositoryNotFoundError"
        r"|Repo id must (?:be in the form|use)|401 Client Error|Invalid repository ID or local "
        r"directory specified)",
        "no such model: check the spelling of model (org/name, or a folder that exists); where the "
        "repository is private, export HF_TOKEN",
    ),
    _fault(
        "not in the cache",
        r"(?:LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic has been disabled"
        r"|couldn't connect to 'https?://|Cannot find (?:an|any) (?:appropriate|requested)"
        r"|couldn't find (?:it|them) in the cached files)",
        "the weights are not on this machine and the Hub cannot be reached: download them first "
        "(hf download MODEL), unset HF_HUB_OFFLINE, or give a folder as model",
    ),
    _fault(
        "disk full",
        r"No space left on device|Not enough free disk space",
        "the disk is full: free some space, or set HF_HOME to a larger disk",
    ),
    _fault(
        "unknown architecture",
        r"Model architectures (\[.*?\]) (?:are not supported|failed to be inspected)"
        r"|does not recognize this architecture|model type `(\S+)` but Transformers",
        "this vLLM does not know the architecture {0}: update vLLM and transformers in its "
        "environment, or choose another model",
    ),
    _fault(
        "custom code",
        r"trust_remote_code=True|contains custom code which must be executed",
        "the model brings code of its own: read it, then add arguments = [\"--trust-remote-code\"]",
    ),
    _fault(
        "no memory left for the cache",
        r"No available memory for the cache blocks",
        "the weights leave no memory for the KV cache: raise memory, quantise, or use more GPUs "
        "(tensor_parallel)",
    ),
    _fault(
        "cache too small",
        r"max seq(?:uence)? len(?:gth)? \(?(\d+)\)?.*?KV cache"
        r"(?:.*?estimated maximum model length is (\d+))?",
        "the KV cache is too small for one request of {0} tokens: lower max_model_len{1}, or raise "
        "memory",
    ),
    _fault(
        "GPU memory taken",
        r"Free memory on device \S* ?\(([\d.]+)/([\d.]+) GiB\) on startup is less than",
        "only {0} of the GPU's {1} GiB are free, less than the share asked for: lower memory, or "
        "end the other process on that GPU (nvidia-smi shows it)",
    ),
    _fault(
        "machine memory taken",
        r"Available memory on node \S+ \(([\d.]+)/([\d.]+) GiB\)",
        "only {0} of the machine's {1} GiB are free, less than what vLLM asks for: lower memory "
        "(on a CPU it is a share of the machine's), or VLLM_CPU_KVCACHE_SPACE",
    ),
    _fault(
        "out of GPU memory",
        r"(?:CUDA|HIP) out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory",
        "the GPU ran out of memory: lower memory by 0.05, lower max_model_len, quantise, use more "
        "GPUs (tensor_parallel), or add arguments = [\"--max-num-seqs\", \"64\"]",
    ),
    _fault(
        "no GPU",
        r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver"
        r"|CUDA driver version is insufficient|no CUDA-capable device",
        "vLLM finds no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES; on a machine without one "
        "install a CPU build of vLLM",
    ),
    _fault(
        "too few GPUs",
        r"World size \((\d+)\) is larger than the number of available GPUs \((\d+)\)"
        r"|tensor parallel size \((\d+)\)",
        "tensor_parallel does not fit: it must be at most the number of GPUs and divide the "
        "model's attention heads",
    ),
    _fault(
        "port taken",
        r"[Aa]ddress already in use|EADDRINUSE",
        "the port is taken: choose another, or 0 for a free one",
    ),
    _fault(
        "bad chat template",
        r"supplied chat template|chat template path doesn't exist|TemplateSyntaxError",
        "the chat template cannot be used: chat_template must be a readable Jinja file",
    ),
    _fault(
        "unknown reasoning parser",
        r"invalid reasoning parser: (\S+)|Reasoning parser '(\S+)' not found"
        r"|could not locate think start/end tokens",
        "the reasoning parser does not fit: choose one that this vLLM knows (vllm serve "
        "--help=reasoning-parser) and whose tags the model's tokenizer has",
    ),
    _fault(
        "adapter rank",
        r"LoRA rank (\d+) is greater than max_lora_rank",
        "the adapter has rank {0}: add arguments = [\"--max-lora-rank\", \"{0}\"]",
    ),
    _fault(
        "adapter",
        r"No adapter found for|Loading lora (\S+) failed|Unexpected LoRA|does not support LoRA",
        "the adapter does not fit: it must be a PEFT LoRA folder for this very model",
    ),
    _fault(
        "length beyond the model",
        r"User-specified max_model_len \((\d+)\) is greater than the derived max_model_len "
        r"\(\w+=(\d+)",
        "max_model_len = {0} is more than the model was made for: at most {1}",
    ),
    _fault(
        "dtype",
        r"Bfloat16 is only supported on GPUs with compute capability",
        "this GPU is too old for bfloat16: set dtype = \"half\"",
    ),
    _fault(
        "quantisation",
        r"(?:Quantization method specified in the model config|Unknown quantization method"
        r"|quantization method (\S+) is not supported)",
        "the quantisation does not fit the weights or this GPU: leave quantization out (vLLM reads "
        "it from the weights), or choose another",
    ),
    _fault(
        "wrong flag",
        r"error: (unrecognized arguments: .*|argument .*|the following arguments are required: .*"
        r"|ambiguous option: .*)",
        "vLLM does not take its command line ({0}): mend arguments in the job",
    ),
    _fault(
        "libraries do not fit",
        r"operator torchvision::\w+ does not exist|undefined symbol: (\S+)|No module named '(\S+)'",
        "vLLM's environment is broken ({0}): install vLLM into a fresh one; on a CPU remove "
        "torchvision and torchaudio",
    ),
    _fault(
        "not installed as vllm",
        r"No package metadata was found for vllm",
        "this build of vLLM is no distribution called vllm, so its command line refuses: give "
        'command = ["python", "-m", "vllm.entrypoints.openai.api_server"] with its own python',
    ),
    _fault(
        "seed on a CPU",
        r"CPU Generator does not use offset",
        "on a CPU this vLLM dies of a request with a seed whose prompt it reads in pieces: add "
        'arguments = ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "N"], N at least '
        "max_model_len",
    ),
)  # fmt: skip

_LAST = re.compile(
    r"^(?:\([^)]*\) ?)*(?:(?:ERROR|CRITICAL) \S+ \S+ \[\S+\] )?\s*"
    r"((?:\w+\.)*\w*(?:Error|Exception)\b.*)$"
)
_ELSEWHERE = ("See root cause above", "See stack trace (above)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def explain(lines: Sequence[str], code: int | None = None) -> str:
    """One line about the end of vLLM from the ``lines`` it printed and its exit ``code``.

    Where nothing is known, its last error; never empty.
    """
    plain = [_COLOUR.sub("", line) for line in lines]
    whole = "\n".join(plain)
    for fault in FAULTS:
        found = fault.pattern.search(whole)
        if found is not None:
            return _filled(fault, found)
    if code == -9:
        return (
            "it was killed (SIGKILL), as the system does when the machine's memory runs out: see "
            "dmesg; a smaller model, max_model_len or --swap-space may help"
        )
    for line in reversed(plain):
        error = _LAST.match(line)
        if error is not None and not any(words in line for words in _ELSEWHERE):
            return error.group(1)[:300]
    last = next((line.strip() for line in reversed(plain) if line.strip()), "")
    return last[:300] or "it printed nothing"


def _filled(fault: Fault, found: re.Match[str]) -> str:
    groups = [group for group in found.groups() if group]
    if fault.name == "cache too small":
        groups[1:] = [f" to {groups[1]} or less"] if len(groups) > 1 else [""]
    slots = fault.means.count("{")
    return fault.means.format(*groups, *[""] * slots).replace("  ", " ").replace(" ()", "")
