"""Small tokenizers of every decoder family, made with the `tokenizers` library, and ids to try them with.

Each has the bytes or letters to write any text of its alphabet, special tokens, an added token that is not special,
U+FFFD as a token of its own, and where the family allows it a hole between its ids.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from generation.text import Vocabulary
from generation.text.detokenizer import Detokenizer
from tests.byte_tokenizer import byte_tokenizer

TEXTS = (
    "The chai is ready",
    "  two  spaces .",
    "आपका चाय ☕ तैयार है",
    "é e\u0301 ﷺ ß",
    "👩‍👩‍👧‍👦 🇮🇳 👍🏽",
    "日本語のテキスト。",
    "العربية",
    "\ufffd replaced \ufffd\ufffd",
    "<|end|> is text here",
    "\n\n\tx\r\n",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A tokenizer with the ids that matter: those of bytes, of special tokens, of nothing, and of U+FFFD."""

    name: str
    vocabulary: Vocabulary
    byte_ids: tuple[int, ...] = ()
    special_ids: tuple[int, ...] = ()
    empty_ids: tuple[int, ...] = ()
    replacement_ids: tuple[int, ...] = ()

    @property
    def falls_back(self) -> bool:
        """Whether bytes are tokens of their own, so that the decoder spoils whole runs for one bad byte."""
        return bool(self.vocabulary.byte_tokens)

    def detokenizer_counted_by(self, tokenizer: Any) -> Detokenizer:
        """A detokenizer whose decodes go through ``tokenizer``."""
        vocabulary = copy.copy(self.vocabulary)
        vocabulary.tokenizer = tokenizer
        return vocabulary.detokenizer()

    @property
    def ids(self) -> st.SearchStrategy[list[int]]:
        """Ids of all kinds: real text, anything at all, mostly bytes, many special tokens, floods."""
        anything = range(len(self.vocabulary.tokens) + 3)
        silent = (*self.special_ids, *self.empty_ids, anything[-1])
        encode = self.vocabulary.tokenizer.encode
        return st.one_of(
            st.sampled_from(TEXTS).map(lambda text: list(encode(text, add_special_tokens=False).ids)),
            _lists(anything),
            _lists([*self.byte_ids * 3, *anything]),
            _lists([*silent * 20, *anything]),
            _lists([*(silent + self.replacement_ids) * 10, *self.byte_ids[::16]]),
        )

    @property
    def clean_ids(self) -> st.SearchStrategy[list[int]]:
        """Ids of whole texts, whose byte runs are valid."""
        encode = self.vocabulary.tokenizer.encode
        texts = st.one_of(st.sampled_from(TEXTS), st.text(max_size=12))
        return texts.map(lambda text: list(encode(text, add_special_tokens=False).ids))


def _lists(ids: Sequence[int]) -> st.SearchStrategy[list[int]]:
    """Lists that are sometimes longer than the window of tier 2; an id that stands twice comes twice as often."""
    return st.lists(st.sampled_from(ids), max_size=24)


SPECIAL = ("<|end|>", "<s>")
ADDED = "<think> aloud"


def _with_added_tokens(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(ADDED, normalized=False, lstrip=True, rstrip=True)])
    return tokenizer


def _family(name: str, tokenizer: Tokenizer, **ids: tuple[int, ...]) -> Family:
    vocabulary = Vocabulary(tokenizer)
    return Family(name=name, vocabulary=vocabulary, special_ids=tuple(vocabulary.special), **ids)


def byte_level(decoder: object = None) -> Tokenizer:
    """ByteLevel with tokens that end, start and continue in the middle of a character."""
    merged = (b" the", b"ch", b"\xe0\xa4", b"\xa4\x86", b"\x98\x95 ", b"\xf0\x9f\x91", "\ufffd".encode(), "é".encode())
    tokenizer = byte_tokenizer(special=SPECIAL, merged=merged)
    tokenizer.add_tokens([AddedToken(ADDED, normalized=False, lstrip=True, rstrip=True)])
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


def byte_fallback(*steps: object) -> Tokenizer:
    """Llama 2's kind: words with a space marker, and a token for each byte; ``steps`` replace the decoder's."""
    words = ("▁", "▁the", "the", "▁x", "x", "☕", "\ufffd", "▁▁", "a", "चा")
    tokens = ("<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "", *words)
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(list(steps) or [*LLAMA_STEPS])
    return _with_added_tokens(tokenizer)


LLAMA_STEPS = (decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0))


def word_level(decoder: object, *tokens: str) -> Tokenizer:
    """A list of words, whatever the decoder makes of them."""
    vocabulary = {token: token_id for token_id, token in enumerate(("[UNK]", *tokens))}
    # An id far above the others leaves a hole.
    vocabulary["far"] = len(vocabulary) + 5
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoder
    return _with_added_tokens(tokenizer)


@functools.cache
def families() -> Mapping[str, Family]:
    """All families by name; built once."""
    words = ("chai", "ready", "is", ".", ",", "n't", "\ufffd", "है", "☕")
    fallback_ids = tuple(range(1, 257))
    byte_level_ids = {"byte_ids": tuple(range(256)), "replacement_ids": (264,)}
    fallback = {"byte_ids": fallback_ids, "empty_ids": (257,), "replacement_ids": (264,)}
    made = (
        _family("byte_level", byte_level(), **byte_level_ids),
        _family("byte_level_in_sequence", byte_level(decoders.Sequence([decoders.ByteLevel()])), **byte_level_ids),
        _family(
            "byte_level_window",
            byte_level(decoders.Sequence([decoders.ByteLevel(), decoders.Replace("ß", "ss")])),
            **byte_level_ids,
        ),
        _family("byte_fallback", byte_fallback(), **fallback),
        _family("byte_fallback_unstripped", byte_fallback(*LLAMA_STEPS[:3]), **fallback),
        _family(
            "byte_fallback_window",
            byte_fallback(decoders.ByteFallback(), decoders.Metaspace()),
            **fallback,
        ),
        _family("word_piece", word_level(decoders.WordPiece(), *words, "##y", "##'s", "do"), replacement_ids=(7,)),
        _family("metaspace", word_level(decoders.Metaspace(), *words, "▁", "▁the", "▁▁x"), replacement_ids=(7,)),
        _family("bpe_suffix", word_level(decoders.BPEDecoder(), *words, "chai</w>", "re</w>"), replacement_ids=(7,)),
        _family("ctc", word_level(decoders.CTC(), *words, "<pad>", "|", "a"), replacement_ids=(7,)),
        _family("no_decoder", word_level(None, *words), replacement_ids=(7,)),
    )
    return MappingProxyType({family.name: family for family in made})


#: The tier that each family must get.
TIERS = MappingProxyType(
    {
        "byte_level": "table",
        "byte_level_in_sequence": "table",
        "byte_level_window": "window",
        "byte_fallback": "table",
        "byte_fallback_unstripped": "table",
        "byte_fallback_window": "window",
        "word_piece": "window",
        "metaspace": "window",
        "bpe_suffix": "window",
        "ctc": "window",
        "no_decoder": "window",
    }
)
