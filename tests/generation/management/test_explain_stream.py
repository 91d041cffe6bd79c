"""`manage.py explain_stream`: what it prints, and what it says when the input is bad."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.byte_tokenizer import byte_tokenizer

TEXT = "आपका चाय ☕ तैयार है"
DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def tokenizer_dir(tmp_path: Path) -> Path:
    (tmp_path / "bytes").mkdir()
    byte_tokenizer().save(str(tmp_path / "bytes" / "tokenizer.json"))
    return tmp_path


def explained(*arguments: str) -> str:
    out = io.StringIO()
    call_command("explain_stream", *arguments, stdout=out)
    return out.getvalue()


def case_lines(tmp_path: Path, *lines: str | bytes) -> str:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return str(path)


class TestTable:
    def test_the_tutorials_table_is_printed_when_cut_in_fives(self) -> None:
        lines = explained("--text", TEXT, "--bytes", "5").splitlines()
        assert lines[0].split() == ["step", "piece", "naive", "emitted", "held", "back"]
        assert lines[1].split("  ")[-1] == "utf8: 2 bytes of an unfinished character"
        assert lines[1].startswith("1     e0 a4 86 e0 a4  'आ\ufffd'")
        assert lines[12:] == [
            "characters: 19",
            "utf8 bytes: 49",
            "graphemes: 14",
            "pieces: 10",
            "naive errors: 10",
            "compared with whole: equal",
        ]

    def test_the_trap_is_named_when_the_text_is_ascii(self) -> None:
        assert "that is the trap" in explained("--text", "Hello", "--bytes", "2")
        assert "that is the trap" not in explained("--text", "é", "--bytes", "1")

    def test_tokens_are_shown_when_a_tokenizer_is_named(self, tokenizer_dir: Path) -> None:
        by_name = explained("--text", "é!", "--tokenizer", "bytes", "--tokenizer-dir", str(tokenizer_dir))
        assert "195" in by_name.splitlines()[1]
        assert explained("--text", "é!", "--tokenizer", str(tokenizer_dir / "bytes")) == by_name
        assert explained("--text", "é!", "--tokenizer", str(tokenizer_dir / "bytes" / "tokenizer.json")) == by_name

    def test_terminal_is_safe_when_the_text_is_hostile(self) -> None:
        printed = explained("--text", "\x1b[2J\u202e\u0007", "--bytes", "9")
        assert not {"\x1b", "\u202e", "\u0007"} & set(printed)

    def test_flush_is_a_step_when_something_waited_to_the_end(self, tmp_path: Path) -> None:
        path = tmp_path / "cut.txt"
        path.write_bytes(b"a\xe0\xa4")
        lines = explained("--file", str(path), "--bytes", "1").splitlines()
        assert lines[4].split() == ["4", "end", "'\ufffd'"]

    def test_possible_stop_is_named_as_the_reason(self) -> None:
        printed = explained("--text", "a ST", "--bytes", "4", "--stop", "STOP", "--stop", "x")
        assert "stop: 2 characters that may become a stop string" in printed


class TestJson:
    def test_one_object_is_printed_when_asked(self) -> None:
        printed = json.loads(explained("--text", "go STOP now", "--bytes", "4", "--stop", "STOP", "--json"))
        assert printed == {
            "id": None,
            "deltas": ["go "],
            "text": "go ",
            "stop_string": "STOP",
            "finish": "stop",
            "holds": {
                "utf8": {"count": 0, "chars": 0, "bytes": 0},
                "context": {"count": 0, "chars": 0, "bytes": 0},
                "stop": {"count": 0, "chars": 0, "bytes": 0},
            },
            "tier": "bytes",
            "totals": {
                "characters": 3,
                "utf8_bytes": 3,
                "graphemes": 3,
                "pieces": 2,
                "naive_errors": 0,
                "compared_with_whole": "equal",
            },
        }

    def test_stop_is_shown_when_included(self) -> None:
        arguments = ("--text", "go STOP now", "--bytes", "4", "--stop", "STOP", "--include-stop", "--json")
        assert json.loads(explained(*arguments))["text"] == "go STOP"


class TestCases:
    @pytest.mark.parametrize("per_push", ["1", "2", "100"])
    def test_reported_stop_strings_come_out_right(self, per_push: str) -> None:
        cases = [json.loads(line) for line in (DATA / "stop_strings.jsonl").read_text(encoding="utf-8").splitlines()]
        printed = explained("--cases", str(DATA / "stop_strings.jsonl"), "--per-push", per_push).splitlines()
        results = [json.loads(line) for line in printed]
        assert len(results) == 16
        for case, result in zip(cases, results, strict=True):
            assert (result["id"], result["text"]) == (case["id"], case["text"])
            assert result["stop_string"] == case["stop_string"]
            assert result["finish"] == ("end" if case["stop_string"] is None else "stop")

    def test_holds_are_counted_by_cause(self, tmp_path: Path) -> None:
        cases = case_lines(tmp_path, '{"byte_pieces": ["e0a4", "86", "53", "54", "41"], "stop": ["STOP"]}')
        (line,) = explained("--cases", cases).splitlines()
        result = json.loads(line)
        assert result["deltas"] == ["आ", "STA"]
        assert result["holds"] == {
            "utf8": {"count": 1, "chars": 0, "bytes": 2},
            "context": {"count": 0, "chars": 0, "bytes": 0},
            "stop": {"count": 1, "chars": 2, "bytes": 0},
        }

    def test_cases_are_read_from_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Input:
            buffer = io.BytesIO(b'{"pieces": ["a"]}\n')

        monkeypatch.setattr(sys, "stdin", Input())
        assert json.loads(explained("--cases", "-"))["text"] == "a"

    def test_other_lines_are_done_when_some_are_bad(self, tmp_path: Path, tokenizer_dir: Path) -> None:
        cases = case_lines(
            tmp_path,
            '{"id": "first", "pieces": ["a"]}',
            "nope",
            "",
            b"\xff",
            '{"ids": [97], "tokenizer": "missing"}',
            '{"ids": [97], "tokenizer": "../bytes"}',
            '{"ids": [97, 300], "tokenizer": "bytes"}',
        )
        out, err = io.StringIO(), io.StringIO()
        with pytest.raises(CommandError, match=r"Bad input in 4 line\(s\)") as failed:
            call_command("explain_stream", cases=cases, tokenizer_dir=tokenizer_dir, stdout=out, stderr=err)
        assert failed.value.returncode == 2
        results = [json.loads(line) for line in out.getvalue().splitlines()]
        assert [(result["id"], result["text"]) for result in results] == [("first", "a"), (7, "a")]
        assert [line.partition(":")[0] for line in err.getvalue().splitlines()] == [
            "line 2",
            "line 4",
            "line 5",
            "line 6",
        ]
        assert "no tokenizer 'missing'" in err.getvalue()


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            pytest.param({"text": "a", "tokenizer": "nowhere"}, "no tokenizer 'nowhere'", id="tokenizer"),
            pytest.param({"text": "a", "piece_size": 1, "stop": [""]}, "must not hold an empty string", id="stop"),
            pytest.param({"file": Path("missing.txt")}, "No such file", id="file"),
            pytest.param({"cases": "missing.jsonl"}, "No such file", id="case file"),
            pytest.param({"text": "\ud83d"}, "lone surrogate at character 0", id="lone surrogate"),
            pytest.param({"text": "\udcff"}, "not UTF-8", id="argument that is not UTF-8"),
        ],
    )
    def test_status_is_two_and_the_message_says_why(
        self, options: dict[str, Any], problem: str, tokenizer_dir: Path
    ) -> None:
        given = {"tokenizer": str(tokenizer_dir / "bytes"), **options}
        with pytest.raises(CommandError, match=problem) as failed:
            call_command("explain_stream", **given)
        assert failed.value.returncode == 2

    def test_damaged_tokenizer_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "tokenizer.json"
        path.write_text("{}")
        with pytest.raises(CommandError, match="is no tokenizer") as failed:
            call_command("explain_stream", text="a", tokenizer=str(path))
        assert failed.value.returncode == 2

    @pytest.mark.parametrize("arguments", [[], ["--text", "a", "--file", "b"], ["--text", "a", "--bytes", "0"]])
    def test_usage_is_an_error(self, arguments: list[str]) -> None:
        with pytest.raises(CommandError):
            call_command("explain_stream", *arguments)
