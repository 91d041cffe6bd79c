"""Our forward pass against the library's, for each kind of model that it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from generation.engine.kv_slab import KVSlab
from generation.engine.llama import Llama, PrefillAttention, Span, Step
from generation.engine.llama_weights import EMBEDDING, read_llama_config
from tests.generation.engine.generating import llama_weights

SHAPE: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 48,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def llama(**options: Any) -> Any:
    return LlamaForCausalLM(LlamaConfig(**{**SHAPE, "head_dim": 8, **options}))


def mistral(**options: Any) -> Any:
    return MistralForCausalLM(MistralConfig(**{**SHAPE, "head_dim": 8, "sliding_window": None, **options}))


def qwen2(**options: Any) -> Any:
    return Qwen2ForCausalLM(Qwen2Config(**{**SHAPE, "use_sliding_window": False, **options}))


def randomised(model: Any) -> Any:
    """Norm weights of one and biases of zero would hide a mistake."""
    generator = torch.Generator().manual_seed(2)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            parameter.data = 0.5 + torch.rand(parameter.shape, generator=generator)
    return model.eval()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(llama, id="llama"),
        pytest.param(lambda: llama(tie_word_embeddings=True), id="llama, tied"),
        pytest.param(lambda: llama(attention_bias=True, mlp_bias=True), id="llama, biases"),
        pytest.param(lambda: llama(num_key_value_heads=6), id="llama, a key head each"),
        pytest.param(lambda: llama(rope_parameters=LLAMA3_ROPE), id="llama 3's positions"),
        pytest.param(mistral, id="mistral"),
        pytest.param(qwen2, id="qwen2"),
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-4), (torch.bfloat16, 0.1)], ids=["f32", "bf16"])
def test_logits_equal_the_librarys_when_prefilled_in_chunks_and_decoded(
    make: Any, dtype: torch.dtype, tolerance: float, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    made = randomised(make())
    made.save_pretrained(tmp_path, max_shard_size="30KB")
    assert len([*tmp_path.glob("*.safetensors")]) > 1
    model = type(made).from_pretrained(tmp_path, dtype=dtype).eval()
    token_ids = torch.randint(0, 50, (140,))
    with torch.inference_mode():
        expected = model(token_ids.unsqueeze(0)).logits[0]
        own = Llama(llama_weights(tmp_path, dtype), context_length=256)
        slab = KVSlab(
            layers=own.layers,
            slots=3,
            kv_heads=own.kv_heads,
            positions=256,
            tokens=3 * 256,
            head_size=own.head_size,
            dtype=own.dtype,
            device=own.device,
        )
        rows = []
        for start, end in ((0, 50), (50, 51), (51, 120)):
            step = Step([Span(slot=1, start=start, count=end - start, is_prefill=True)], slab.keys)
            rows.append(own(token_ids[start:end], step, slab))
        for position in range(120, 140):
            step = Step([Span(slot=1, start=position, count=1)], slab.keys)
            rows.append(own(token_ids[[position]], step, slab))
        torch.testing.assert_close(own.logits(torch.cat(rows)), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_prompts_of_all_lengths_are_computed_in_few_shapes(dtype: torch.dtype) -> None:
    like = torch.zeros(0, dtype=dtype)
    shapes = {
        tuple(mask.shape)
        for start in range(0, 1024, 97)
        for count in range(1, 257, 5)
        for mask in PrefillAttention(Span(slot=0, start=start, count=count, is_prefill=True), like)._masks
    }
    # Each has kernels of its own, some of them 100 KB.
    assert len(shapes) < 50


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: GemmaForCausalLM(GemmaConfig(**SHAPE, head_dim=8)), id="another family"),
        pytest.param(lambda: mistral(sliding_window=16), id="sliding window"),
        pytest.param(lambda: llama(hidden_act="gelu"), id="another activation"),
        pytest.param(
            lambda: llama(rope_parameters={"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}),
            id="positions that depend on the length",
        ),
    ],
)
def test_model_is_left_to_the_library_when(make: Any, tmp_path: Path) -> None:
    make().save_pretrained(tmp_path)
    assert read_llama_config(tmp_path) is None


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        pytest.param(llama, {"num_key_value_heads": None}, id="heads are not said"),
        pytest.param(llama, {"quantization_config": {"quant_method": "awq"}}, id="weights are quantised"),
        pytest.param(llama, {"architectures": ["LlavaForConditionalGeneration"]}, id="it sees as well"),
        pytest.param(llama, {"architectures": None}, id="it does not say what it is"),
        pytest.param(mistral, {"sliding_window": ...}, id="its window is not said"),
    ],
)
def test_model_is_left_to_the_library_when_its_config_leaves_a_doubt(
    make: Any, changed: dict[str, Any], tmp_path: Path
) -> None:
    make().save_pretrained(tmp_path)
    assert read_llama_config(tmp_path) is not None
    config = json.loads((tmp_path / "config.json").read_text()) | changed
    whole = {name: value for name, value in config.items() if value is not ...}
    (tmp_path / "config.json").write_text(json.dumps(whole))
    assert read_llama_config(tmp_path) is None


def test_config_of_an_older_library_is_read(tmp_path: Path) -> None:
    llama(rope_parameters=LLAMA3_ROPE).save_pretrained(tmp_path)
    new = read_llama_config(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    rope = config.pop("rope_parameters")
    config |= {"rope_theta": rope.pop("rope_theta"), "rope_scaling": rope}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_llama_config(tmp_path) == new
    assert new is not None
    assert new.rope == "llama3"


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16], ids=["as f32", "as bf16"])
def test_tensor_in_its_file_equals_the_copy(stored: torch.dtype, wanted: torch.dtype, tmp_path: Path) -> None:
    llama().to(stored).save_pretrained(tmp_path)
    weights = llama_weights(tmp_path, wanted)
    mapped = weights.mapped(EMBEDDING)
    assert mapped.dtype == wanted
    assert torch.equal(mapped, weights[EMBEDDING])
    whole = (tmp_path / "model.safetensors").stat().st_size
    assert (mapped.untyped_storage().nbytes() == whole) == (stored == wanted)
