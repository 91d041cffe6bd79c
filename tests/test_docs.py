"""The documents say what the code does: commands run, lists are complete, links lead somewhere."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from generation.backends.base import Backend
from generation.exceptions import GenerationError, NotFoundError
from generation.models import Stream
from generation.output import HoldCause, StopReason
from generation.protocol.completion_request import ChatCompletionBody
from generation.protocol.text_request import TextCompletionBody
from generation.recording.latency import Figures, state_of
from generation.request import ChatMessage, GenerationRequest, SamplingParams
from streamsite.bootstrap import pins_of
from tests.live_server import ROOT, LiveServer, live_server

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
#: Distribution names that differ from the module's.
DISTRIBUTIONS = {"csp": "django-csp", "environ": "django-environ", "opentelemetry": "opentelemetry-sdk"}


def document(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def first_column(text: str) -> list[str]:
    """The names in backticks that begin the rows of tables."""
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def shell_commands(text: str) -> list[str]:
    return [command for block in blocks(text, "sh") for command in re.split(r"(?<!\\)\n", block) if command]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("docs")) as server:
        yield server


@pytest.mark.servers
def test_readmes_commands_run_when_pasted_in_order(server: LiveServer, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("What is tea?\nAnd coffee?\n")
    outputs = []
    for command in shell_commands(README):
        command = command.replace("http://127.0.0.1:8000", server.base_url)
        command = command.replace(".venv/bin/python manage.py", f"{sys.executable} {ROOT / 'manage.py'}")
        ran = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=server.environment, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        outputs.append(ran.stdout)
    assert len(outputs) == 5
    curl, generate, _, replay_stream, explain_stream = outputs
    assert "Hello, world!" == generate.strip() == replay_stream.strip()
    frames = [line.removeprefix("data: ") for line in curl.splitlines() if line]
    shown = re.findall(r"^data: (\{.*)$", README, re.MULTILINE)
    assert {shape(frame) for frame in frames[:-1]} == {shape(frame) for frame in shown}
    assert frames[-1] == "[DONE]"
    assert "utf8" in explain_stream


@pytest.mark.servers
def test_api_pages_commands_give_the_answers_that_it_shows(server: LiveServer, tmp_path: Path) -> None:
    server.manage("shell", "-c", "from django.contrib.auth.models import User; User.objects.create(username='admin')")
    page = document("api.md")
    script = "\n".join(blocks(page, "sh")).replace("http://127.0.0.1:8000", server.base_url)
    script = script.replace(".venv/bin/python manage.py", f"{sys.executable} {ROOT / 'manage.py'}")
    ran = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=server.environment, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    shown = [json.loads(line) for line in re.findall(r"^\{.*$", page, re.MULTILINE)]
    assert answers[1] == shown[1]
    # A minute of the clock may begin before the last two requests, but not before both of them.
    assert [list(answer) for answer in answers[:3]] == [list(answer) for answer in shown[:3]]
    assert shown[4] in answers[3:]


def test_api_page_has_every_code_of_an_error() -> None:
    told = dict(re.findall(r"^\| (\d+) \| (.*?) \|", document("api.md"), re.MULTILINE))
    for error in errors(GenerationError):
        if error.default_code is not None and error not in (NotFoundError,):
            assert str(error.status) in told
            assert f"`{error.default_code}`" in document("api.md")


def errors(error: type[GenerationError]) -> Iterator[type[GenerationError]]:
    yield error
    for each in error.__subclasses__():
        yield from errors(each)


def shape(frame: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a frame has, whatever it says."""
    chunk = json.loads(frame)
    return tuple(chunk), tuple(chunk["choices"][0]["delta"])


def test_readme_has_its_parts_in_order() -> None:
    headings = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert headings == [
        "Start",
        "Call it",
        "What it does, and what it does not",
        "Configuration",
        "Backends",
        "Layout",
        "Develop",
        "Licence",
    ]


def test_make_targets_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for path in DOCUMENTS for name in re.findall(r"\bmake ([a-z][a-z-]*)", code(path))}
    assert {"run", "test", "lint"} <= named
    assert named <= targets


def code(path: Path) -> str:
    """What is set as code in a document."""
    text = path.read_text(encoding="utf-8")
    return "\n".join([*blocks(text, ".*"), *(f"{inline}\n" for inline in re.findall(r"`([^`\n]+)`", text))])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_paths_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []
    named = re.findall(r"`((?:streamsite|generation|docs|deploy|tests)/[\w./-]+)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_architecture_page_names_files_that_exist() -> None:
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", document("architecture.md"))
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "generation" / name).exists() and not (ROOT / name).exists()] == []


def test_settings_page_lists_exactly_the_variables_that_are_read() -> None:
    listed = first_column(document("settings.md"))
    source = (ROOT / "streamsite" / "env.py").read_text(encoding="utf-8")
    read = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[A-Z][A-Z_]+", node.value)
    }
    variables = {name for name in read if name.startswith("STREAMSITE_") or name.endswith(("_URL", "HOST", "PORT"))}
    assert sorted(listed) == sorted(variables)


def test_example_environment_names_the_same_variables_as_the_settings_page() -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^# ([A-Z_]+)=", example, re.MULTILINE)) == sorted(first_column(document("settings.md")))


def test_metrics_page_has_every_figure_cause_and_reason() -> None:
    page = set(re.findall(r"`([a-z0-9_]+)`", document("metrics.md")))
    assert {field.name for field in fields(Figures)} <= page
    assert set(HoldCause) | set(StopReason) | set(Stream.State) <= page
    columns = {field.name for field in Stream._meta.get_fields()}
    durations = {name for name in page if name.endswith("_s")} - {"held_s", "total_s", "longest_s", "tokens_per_s"}
    assert durations <= columns


def test_metrics_page_puts_every_stop_reason_under_its_state() -> None:
    rows = dict(re.findall(r"^\| `(done|stopped|failed|lost)` \| (.*) \|$", document("metrics.md"), re.MULTILINE))
    told = {reason: state for state, row in rows.items() for reason in re.findall(r"`(\w+)`", row)}
    assert told == {reason.value: state_of(reason) for reason in StopReason if reason is not StopReason.LOST} | {
        "lost": "lost"
    }


def test_requests_page_lists_exactly_the_fields_that_are_read() -> None:
    chat: set[str] = set()
    completions: set[str] = set()
    for row in re.findall(r"^\| (`.*) \|$", document("requests.md"), re.MULTILINE):
        names, in_chat, in_completions = (cell.strip() for cell in row.split("|")[:3])
        chat |= set(re.findall(r"`(\w+)`", names if in_chat else ""))
        only = in_completions if in_completions.startswith("`") else names
        completions |= set(re.findall(r"`(\w+)`", only if in_completions else ""))
    assert chat == set(ChatCompletionBody.model_fields)
    assert completions == set(TextCompletionBody.model_fields)


async def test_example_backend_answers() -> None:
    example = next(block for block in blocks(document("backends.md"), "python") if "class ShoutingBackend" in block)
    namespace: dict[str, type[Backend]] = {}
    exec(compile(example, "docs/backends.md", "exec"), namespace)
    request = GenerationRequest(
        model="shout", messages=(ChatMessage(role="user", content="good morning"),), sampling=SamplingParams()
    )
    stream = await namespace["ShoutingBackend"]("shout").stream(request)
    assert [delta.text async for delta in stream] == ["GOOD ", "MORNING "]
    assert stream.outcome is not None
    assert stream.outcome.stop_reason is StopReason.EOS


def test_every_imported_package_is_pinned_with_a_reason_and_told_why() -> None:
    direct = "\n".join(
        (ROOT / name).read_text(encoding="utf-8").partition("\n\n")[0]
        for name in ("requirements.txt", "requirements-openvino.txt", "requirements-otel.txt")
    )
    reasons = dict(re.findall(r"^([\w-]+)\S*==\S+  # (.+)$", direct, re.MULTILINE))
    imported = {
        DISTRIBUTIONS.get(module, module.replace("_", "-"))
        for folder in ("generation", "streamsite")
        for path in (ROOT / folder).rglob("*.py")
        for module in imported_modules(path)
    }
    assert sorted(imported - reasons.keys()) == ["asgiref"]  # Django's own
    told = document("decisions/dependencies.md")
    assert [name for name in reasons if name not in told] == []


def imported_modules(path: Path) -> Iterator[str]:
    own = {"generation", "streamsite", "__future__"} | sys.stdlib_module_names
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from {name.partition(".")[0] for name in names} - own


def test_requirements_are_pinned_once_each() -> None:
    lines = [
        line.partition("#")[0].strip()
        for name in ("requirements.txt", "requirements-otel.txt", "requirements-dev.txt")
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
    ]
    pins = pins_of(ROOT / "requirements-dev.txt")
    assert len([line for line in lines if line]) == len(pins) + 2  # and those that include the others
    assert len({pin.partition("==")[0] for pin in pins}) == len(pins)


def test_pre_commit_runs_tools_that_the_environment_has() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    programs = {Path(hook["entry"].split()[0]).name for hook in hooks}
    assert [
        name for name in programs - {"npm"} if shutil.which(name, path=str(Path(sys.executable).parent)) is None
    ] == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    hosts = re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.(org|com)|deb\.debian\.org|huggingface\.co/")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in tracked.split("\0") if name and name != "tests/test_docs.py"]
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()}
    assert [path.name for path, text in texts.items() if hosts.search(text)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_row_is_part_of_a_table(path: Path) -> None:
    """A row after an empty line is shown as plain text."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", text) if paragraph.lstrip().startswith("|")]
    assert [paragraph for paragraph in paragraphs if not re.search(r"^\s*\|[ :|-]+\|$", paragraph, re.MULTILINE)] == []
