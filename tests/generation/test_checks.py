"""What `manage.py check` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders

from generation.backends.local import LocalBackend
from generation.backends.scripted import ScriptedBackend
from generation.checks import anonymous_use_is_local, tokenizer_messages
from tests.tiny_model import build_tiny_model


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("tiny-model"))


class TestAnonymousUse:
    def test_stops_the_start_outside_the_demo(self, settings: Any) -> None:
        settings.DEBUG, settings.STREAMSITE_ANONYMOUS = False, True
        assert [message.id for message in anonymous_use_is_local()] == ["generation.E001"]

    @pytest.mark.parametrize(("debug", "anonymous"), [(True, True), (True, False), (False, False)])
    def test_is_fine_otherwise(self, settings: Any, debug: bool, anonymous: bool) -> None:
        settings.DEBUG, settings.STREAMSITE_ANONYMOUS = debug, anonymous
        assert list(anonymous_use_is_local()) == []


class TestTokenizers:
    def test_tier_is_told(self, tiny_folder: Path) -> None:
        [message] = tokenizer_messages(LocalBackend("mine", model=str(tiny_folder)))
        assert message.id == "generation.I001"
        assert message.msg == "GENERATION_BACKENDS['mine']: the tokenizer streams exactly, by its table."

    def test_missing_model_is_a_warning(self, tmp_path: Path) -> None:
        [message] = tokenizer_messages(LocalBackend("mine", model=str(tmp_path / "nothing")))
        assert message.id == "generation.W001"

    def test_decoder_that_rewrites_across_tokens_is_an_error(self, tmp_path: Path) -> None:
        folder = build_tiny_model(tmp_path / "model")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse(), decoders.Replace("--", "\u2014")])
        tokenizer.save(str(folder / "tokenizer.json"))
        [message] = tokenizer_messages(LocalBackend("mine", model=str(folder)))
        assert message.id == "generation.E002"

    def test_nothing_is_said_where_there_is_no_tokenizer(self) -> None:
        assert tokenizer_messages(ScriptedBackend("mine", model="m", pieces=["a"])) == []
