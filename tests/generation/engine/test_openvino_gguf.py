"""OpenVINO's copy of a GGUF file has the same fields, and weights that it reads without loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType

from generation.engine.openvino_gguf import write_exact_gguf

WEIGHTS = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)


def written(path: Path, kind: GGMLQuantizationType) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tea ☕")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_rope_freq_base(10_000.0)
    writer.add_token_list(["a", "☕"])
    writer.add_token_types([gguf.TokenType.CONTROL, gguf.TokenType.NORMAL])
    writer.add_add_bos_token(False)
    writer.add_tensor("token_embd.weight", gguf.quants.quantize(WEIGHTS, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def fields(path: Path) -> dict[str, Any]:
    return {
        name: field.contents() for name, field in gguf.GGUFReader(path).fields.items() if not name.startswith("GGUF.")
    }


@pytest.mark.parametrize(
    ("kind", "copied"),
    [
        (GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0),
        (GGMLQuantizationType.Q5_1, GGMLQuantizationType.Q8_0),
        (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q4_0),
        (GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q8_0),
        (GGMLQuantizationType.F16, GGMLQuantizationType.F16),
    ],
    ids=lambda kind: kind.name,
)
def test_copy_has_the_weights_in_a_type_that_is_read_exactly(
    tmp_path: Path, kind: GGMLQuantizationType, copied: GGMLQuantizationType
) -> None:
    source = written(tmp_path / "a.gguf", kind)
    write_exact_gguf(source, tmp_path / "b.gguf")
    (before,), (after,) = gguf.GGUFReader(source).tensors, gguf.GGUFReader(tmp_path / "b.gguf").tensors
    assert after.tensor_type == copied
    was, now = (gguf.quants.dequantize(one.data, one.tensor_type) for one in (before, after))
    # A 127th of the largest of a block, halved, is what 8 bits can be wrong by.
    assert np.abs(was - now).max() <= np.abs(was).max() / 250


def test_copy_has_the_same_fields(tmp_path: Path) -> None:
    source = written(tmp_path / "a.gguf", GGMLQuantizationType.Q4_1)
    write_exact_gguf(source, tmp_path / "b.gguf")
    assert fields(tmp_path / "b.gguf") == fields(source) | {"general.file_type": gguf.LlamaFileType.MOSTLY_Q8_0}
