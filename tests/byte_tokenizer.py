"""A tokenizer of bytes, made in a moment: every text encodes, ids 0 to 255 are the bytes, further ids are special.

For tests that need real ids and a real decoder but no real vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

END = "<|end|>"
END_ID = 256


def byte_tokenizer(special: Sequence[str] = (END,), merged: Sequence[bytes] = ()) -> Tokenizer:
    """Return a ByteLevel tokenizer: 256 bytes, then ``special`` tokens, then a token for each of ``merged``.

    The merged tokens are decoded like any other, but encoding never makes them.
    """
    vocabulary = {spelled(bytes([byte])): byte for byte in range(256)}
    first_merged = 256 + len(special)
    vocabulary |= {spelled(piece): first_merged + place for place, piece in enumerate(merged)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary | {token: 256 + n for n, token in enumerate(special)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def spelled(piece: bytes) -> str:
    """The characters by which a ByteLevel vocabulary writes these bytes."""
    return "".join(_SPELLING[byte] for byte in piece)


# The library offers the 256 characters only without their order: those of printable bytes are the bytes' own, and the
# rest stand, in code point order, for the rest.
_ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
_OWN = {ord(char): char for char in _ALPHABET if ord(char) < 256}
_SPELLING = _OWN | dict(
    zip((byte for byte in range(256) if byte not in _OWN), (char for char in _ALPHABET if ord(char) > 255), strict=True)
)
