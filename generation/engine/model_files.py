"""Where a model's files are: the setting's text in, a folder of safetensors and tokenizer files out.

Only looks, never downloads, converts or imports torch, so it is quick enough for every start. Pickled weights are
never accepted. What is missing is made by `generation.engine.model_fetch`, which ``manage.py fetch_model`` runs.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from generation.exceptions import BackendUnavailableError

#: Folder of the bundled model below ``var/models``.
BUNDLED_FOLDER = "smollm2-135m-instruct"
FACTS_FILE = "streamsite.json"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
#: What is taken from a hub repository; everything else, pickles and code above all, stays there.
HUB_FILES = ("*.json", "*.jinja", "*.safetensors")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What people are told about a model, and the digests that prove its files.

    ``source`` says what the folder was made from (``sha256:…``); ``files`` maps file names to SHA-256 digests.
    Both are empty for folders that Streamsite did not make.
    """

    id: str
    title: str
    description: str = ""
    licence: str = ""
    origin: str = ""
    source: str = ""
    files: dict[str, str] = field(default_factory=dict)


def models_folder(var: Path) -> Path:
    """Where fetched and converted models live."""
    return var / "models"


def find_model(model: str, var: Path) -> Path:
    """Return the folder of ``model``: empty (the bundled one), a folder, a GGUF file or a hub id.

    Raises BackendUnavailableError, with what to do, when it is not there or not usable.
    """
    if model == "":
        return _made_folder(models_folder(var) / BUNDLED_FOLDER, "The bundled model is not there yet.")
    path = Path(model).expanduser()
    if path.is_dir():
        return _own_folder(path)
    if path.suffix == ".gguf":
        return _made_folder(converted_folder(path, var), f"{path} is not converted yet.")
    if HUB_ID.fullmatch(model):
        return _hub_folder(model)
    raise BackendUnavailableError(
        f"STREAMSITE_MODEL is {model!r}: no such folder. Name a model folder, a .gguf file or a hub id (owner/name)."
    )


def converted_folder(gguf: Path, var: Path) -> Path:
    """Where the conversion of this GGUF file lives; another path, size or time of change is another folder."""
    try:
        stat = gguf.stat()
    except OSError as exc:
        raise BackendUnavailableError(f"Cannot read {gguf}: {exc.strerror}. Check STREAMSITE_MODEL.") from exc
    version = hashlib.sha256(f"{gguf.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode()).hexdigest()
    return models_folder(var) / f"{gguf.stem.lower()}-{version[:12]}"


def is_made(folder: Path) -> bool:
    """Whether Streamsite made this folder; it is complete then, because it appeared in one rename."""
    return (folder / FACTS_FILE).is_file()


def read_facts(folder: Path) -> ModelFacts:
    """The folder's own facts, else what its name says."""
    try:
        return ModelFacts(**json.loads((folder / FACTS_FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        # In the hub's cache the folder is a commit; the repository's name is three levels up.
        cached = next((part for part in folder.parts if part.startswith("models--")), None)
        title = cached.removeprefix("models--").replace("--", "/") if cached else folder.resolve().name
        return ModelFacts(id=title.lower(), title=title)
    except (OSError, ValueError, TypeError) as exc:
        raise BackendUnavailableError(
            f"{folder / FACTS_FILE} is damaged. Run `manage.py fetch_model --force`."
        ) from exc


def write_facts(folder: Path, facts: ModelFacts) -> None:
    """Write the facts with the digests of every file that is in the folder now."""
    values: dict[str, Any] = asdict(facts)
    values["files"] = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
    (folder / FACTS_FILE).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def damaged_files(folder: Path) -> list[str]:
    """Names of files that are missing or differ from their recorded digest."""
    facts = read_facts(folder)
    return [
        name
        for name, digest in facts.files.items()
        if not (folder / name).is_file() or file_digest(folder / name) != digest
    ]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _made_folder(folder: Path, problem: str) -> Path:
    if not is_made(folder):
        raise BackendUnavailableError(f"{problem} Run `manage.py fetch_model`, then restart the server.")
    return folder


def _own_folder(folder: Path) -> Path:
    for pattern in ("config.json", "tokenizer.json", "*.safetensors"):
        # What the openvino engine reads has weights of its own.
        if not any(folder.glob(pattern)) and not (pattern == "*.safetensors" and any(folder.glob("openvino_*.bin"))):
            raise BackendUnavailableError(
                f"{folder} has no {pattern}. A model folder needs config.json, tokenizer.json and safetensors weights."
            )
    return folder.resolve()


def _hub_folder(repository: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _own_folder(Path(snapshot_download(repository, allow_patterns=list(HUB_FILES), local_files_only=True)))
    except LocalEntryNotFoundError as exc:
        raise BackendUnavailableError(
            f"{repository} is not downloaded yet. Run `manage.py fetch_model`, then restart the server."
        ) from exc
