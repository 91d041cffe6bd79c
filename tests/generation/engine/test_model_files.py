from __future__ import annotations

import os
from pathlib import Path

import pytest

from generation.engine.model_files import (
    BUNDLED_FOLDER,
    ModelFacts,
    converted_folder,
    damaged_files,
    find_model,
    is_made,
    read_facts,
    write_facts,
)
from generation.exceptions import BackendUnavailableError

FACTS = ModelFacts(id="tiny", title="Tiny", licence="MIT", origin="here", source="sha256:00")


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"abc")
    write_facts(folder, FACTS)
    return folder


def test_bundled_folder_is_found_when_it_is_made(tmp_path: Path) -> None:
    folder = made(tmp_path / "models" / BUNDLED_FOLDER)
    assert find_model("", tmp_path) == folder


def test_own_folder_is_found_when_complete(tmp_path: Path, tiny_folder: Path) -> None:
    assert find_model(str(tiny_folder), tmp_path) == tiny_folder


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "*.safetensors"])
def test_own_folder_is_refused_when_a_file_is_missing(tmp_path: Path, missing: str) -> None:
    for name in {"config.json", "tokenizer.json", "model.safetensors"} - {missing.replace("*", "model")}:
        (tmp_path / name).touch()
    (tmp_path / "pytorch_model.bin").touch()  # pickles do not count
    with pytest.raises(BackendUnavailableError) as caught:
        find_model(str(tmp_path), tmp_path)
    assert f"has no {missing}" in caught.value.message


@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param("", "Run `manage.py fetch_model`", id="bundled, not made"),
        pytest.param("/no/such/folder/at/all", "no such folder", id="wrong folder"),
        pytest.param("nonsense", "no such folder", id="one word"),
        pytest.param("/no/such/file.gguf", "Cannot read /no/such/file.gguf", id="wrong GGUF file"),
    ],
)
def test_model_is_refused_with_what_to_do_when(tmp_path: Path, model: str, message: str) -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        find_model(model, tmp_path)
    assert message in caught.value.message


def test_gguf_is_found_converted_and_lost_when_the_file_changes(tmp_path: Path) -> None:
    gguf = tmp_path / "Some.Model.gguf"
    gguf.write_bytes(b"GGUF")
    with pytest.raises(BackendUnavailableError, match="not converted yet"):
        find_model(str(gguf), tmp_path)
    folder = made(converted_folder(gguf, tmp_path))
    assert find_model(str(gguf), tmp_path) == folder
    assert folder.name.startswith("some.model-")
    os.utime(gguf, ns=(0, 0))
    with pytest.raises(BackendUnavailableError, match="not converted yet"):
        find_model(str(gguf), tmp_path)


def test_hub_repository_is_found_in_the_librarys_cache_when_it_was_downloaded(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "models--owner--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("c0ffee")
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / "c0ffee").symlink_to(tiny_folder)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BackendUnavailableError, match="owner/other is not downloaded yet"):
        find_model("owner/other", tmp_path)
    assert find_model("owner/tiny", tmp_path) == tiny_folder


def test_facts_come_back_when_written(tmp_path: Path) -> None:
    folder = made(tmp_path / "model")
    facts = read_facts(folder)
    assert (facts.id, facts.title, facts.licence, facts.origin, facts.source) == (
        "tiny",
        "Tiny",
        "MIT",
        "here",
        "sha256:00",
    )
    assert facts.files == {"weights": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    assert is_made(folder)


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        pytest.param("My-Model", ModelFacts(id="my-model", title="My-Model"), id="plain folder"),
        pytest.param(
            "models--Owner--Name/snapshots/c0ffee", ModelFacts(id="owner/name", title="Owner/Name"), id="hub cache"
        ),
    ],
)
def test_facts_come_from_the_name_when_there_are_none(tmp_path: Path, folder: str, expected: ModelFacts) -> None:
    (tmp_path / folder).mkdir(parents=True)
    assert read_facts(tmp_path / folder) == expected
    assert not is_made(tmp_path / folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"unknown": 1}'], ids=["empty", "cut", "list", "unknown field"])
def test_facts_are_refused_when_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "streamsite.json").write_text(text)
    with pytest.raises(BackendUnavailableError, match=r"damaged\. Run `manage\.py fetch_model --force`"):
        read_facts(tmp_path)


def test_damage_is_named_when_files_changed_or_vanished(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / name).write_text(name)
    write_facts(folder, FACTS)
    assert damaged_files(folder) == []
    (folder / "a").write_text("A")
    (folder / "c").unlink()
    assert damaged_files(folder) == ["a", "c"]
