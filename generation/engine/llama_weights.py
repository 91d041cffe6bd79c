"""Figures and weights of a llama-family model, straight from its folder.

Not by the library's model classes: to import them takes seconds and some 90 MB, and they hold all weights twice while
the packed ones are made. What is not certain to be computed the same is left to the library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

#: Classes with exactly these layers: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
FAMILY = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"})
#: Kinds of rotary positions that depend on the position alone, not on how long the sequence is.
STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
#: safetensors' names.
_DTYPE_NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """What ``config.json`` says. ``rope`` is the library's kind of rotary positions, with base ``theta``."""

    layers: int
    heads: int
    kv_heads: int
    head_size: int
    eps: float
    is_tied: bool
    rope: str
    theta: float


def read_llama_config(folder: Path) -> LlamaConfig | None:
    """Read a folder's ``config.json``; None for a model that is left to the library."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    rope = config.get("rope_parameters") or {
        **(config.get("rope_scaling") or {}),
        "rope_theta": config.get("rope_theta"),
    }
    # The library's defaults for what is left out differ from family to family.
    given = {name: config.get(name) for name in ("num_attention_heads", "num_key_value_heads", "rms_norm_eps")}
    if (
        not FAMILY.issuperset(config.get("architectures") or [""])
        or not all([*given.values(), rope.get("rope_theta")])
        or (kind := rope.get("rope_type") or rope.get("type") or "default") not in STATIC_ROPE
        or config.get("hidden_act") != "silu"
        or config.get("quantization_config")
        or not _sees_everything(config)
        or not any((folder / name).is_file() for name in (SINGLE, INDEX))
    ):
        return None
    return LlamaConfig(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_size=config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"],
        eps=config["rms_norm_eps"],
        is_tied=config.get("tie_word_embeddings", False),
        rope=kind,
        theta=rope["rope_theta"],
    )


class LlamaWeights:
    """The weights of a folder, each read when it is asked for, in ``dtype`` on ``device``."""

    def __init__(self, folder: Path, config: LlamaConfig, *, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        self.dtype = dtype
        self.device = device
        self._folder = folder
        if (folder / SINGLE).is_file():
            files = {SINGLE}
        else:
            files = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        opened: dict[Path, Any] = {folder / name: safe_open(folder / name, "pt") for name in sorted(files)}
        # No mapping: it has keys only.
        self._file_of = {name: (path, file) for path, file in opened.items() for name in file.keys()}  # noqa: SIM118

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def __getitem__(self, name: str) -> torch.Tensor:
        """A copy: what were kept of the file itself would keep all of it in memory. KeyError for a name not there."""
        _, file = self._file_of[name]
        tensor: torch.Tensor = file.get_tensor(name)
        return tensor.to(self.device, self.dtype, copy=True)

    def mapped(self, name: str) -> torch.Tensor:
        """The tensor where it lies in its file; a copy if it has another type there.

        Only what is looked at takes memory, which the system can have back at any time.
        """
        path, _ = self._file_of[name]
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(length))[name]
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if self.device.type != "cpu" or entry["dtype"] != _DTYPE_NAMES.get(self.dtype) or begin % self.dtype.itemsize:
            return self[name]
        whole = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
        return whole[begin:end].view(self.dtype).view(entry["shape"])

    def rotations(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of the first positions, shape (positions, head size), computed in f32."""
        frequencies, scale = _frequencies(self._folder, self.config)
        angles = torch.outer(torch.arange(positions).float(), frequencies).repeat(1, 2)
        cos, sin = angles.cos() * scale, angles.sin() * scale
        return cos.to(self.device, self.dtype), sin.to(self.device, self.dtype)


def _sees_everything(config: Mapping[str, Any]) -> bool:
    """Whether every position attends to all before it. Where nothing is said, all families but one have a window."""
    has_none = (
        config["architectures"] == ["LlamaForCausalLM"]
        or config.get("sliding_window", 0) is None
        or config.get("use_sliding_window") is False
    )
    return has_none and "sliding_attention" not in (config.get("layer_types") or ())


def _frequencies(folder: Path, config: LlamaConfig) -> tuple[torch.Tensor, float]:
    """Angles a position, one for each pair of a head's numbers, and what cosines and sines are multiplied by."""
    if config.rope == "default":
        return 1.0 / config.theta ** (torch.arange(0, config.head_size, 2).float() / config.head_size), 1.0
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    whole = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    frequencies, scale = ROPE_INIT_FUNCTIONS[config.rope](whole, torch.device("cpu"))
    return frequencies.float(), scale
