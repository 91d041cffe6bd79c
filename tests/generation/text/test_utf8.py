import pytest

from generation.text.utf8 import PER_BYTE, PER_CHARACTER, SurrogateJoiner, Utf8Decoder

TEXT = "आपका चाय ☕ तैयार है"


class TestUtf8Decoder:
    def test_characters_come_out_whole_when_bytes_come_in_fives(self) -> None:
        decoder = Utf8Decoder()
        written = TEXT.encode()
        assert len(written) == 49
        shown = [decoder.push(written[start : start + 5]) for start in range(0, 49, 5)]
        assert shown == ["आ", "पक", "ा ", "चा", "य ", "☕ त", "ै", "या", "र ", "है"]
        assert decoder.flush() == ""

    @pytest.mark.parametrize("size", range(1, 8))
    def test_text_survives_when_cut_every_n_bytes(self, size: int) -> None:
        decoder = Utf8Decoder()
        written = "aé€😀\u0000\U0010ffff".encode()
        shown = [decoder.push(written[start : start + size]) for start in range(0, len(written), size)]
        assert "".join(shown) + decoder.flush() == "aé€😀\u0000\U0010ffff"

    @pytest.mark.parametrize(
        ("data", "per_character", "per_byte"),
        [
            pytest.param(b"\xe2\x82", "\ufffd", "\ufffd\ufffd", id="cut"),
            pytest.param(b"\xe2\x82A", "\ufffdA", "\ufffd\ufffdA", id="cut by a letter"),
            pytest.param(b"\x80\x80", "\ufffd\ufffd", "\ufffd\ufffd", id="continuation bytes alone"),
            pytest.param(b"\xed\xa0\x80", "\ufffd" * 3, "\ufffd" * 3, id="surrogate"),
            pytest.param(b"\xf0\x9f\x98\xf0\x9f\x98\x80", "\ufffd😀", "\ufffd\ufffd\ufffd😀", id="begun twice"),
            pytest.param(b"\xc0\xaf\xff", "\ufffd" * 3, "\ufffd" * 3, id="never valid"),
            pytest.param("\ufffd".encode(), "\ufffd", "\ufffd", id="genuine"),
        ],
    )
    def test_broken_bytes_are_shown_by_rule_when_cut_anywhere(
        self, data: bytes, per_character: str, per_byte: str
    ) -> None:
        for errors, expected in ((PER_CHARACTER, per_character), (PER_BYTE, per_byte)):
            for cut in range(len(data) + 1):
                decoder = Utf8Decoder(errors)
                assert decoder.push(data[:cut]) + decoder.push(data[cut:]) + decoder.flush() == expected

    def test_at_most_three_bytes_wait_when_bytes_come_singly(self) -> None:
        decoder = Utf8Decoder()
        waiting = []
        for byte in "😀".encode():
            decoder.push(bytes([byte]))
            waiting.append(decoder.held)
        assert waiting == [1, 2, 3, 0]

    def test_genuine_replacement_character_passes_at_once(self) -> None:
        assert Utf8Decoder().push("a\ufffd".encode()) == "a\ufffd"


class TestSurrogateJoiner:
    def test_pair_is_joined_when_its_halves_come_apart(self) -> None:
        joiner = SurrogateJoiner()
        assert joiner.push("a\ud83d") == "a"
        assert joiner.held == 2
        assert joiner.push("\ude00b") == "😀b"
        assert joiner.held == 0

    @pytest.mark.parametrize(
        ("pieces", "expected"),
        [
            pytest.param(["\ud83d"], "\ufffd", id="high half at the end"),
            pytest.param(["\ude00x"], "\ufffdx", id="low half alone"),
            pytest.param(["\ud83d", "x"], "\ufffdx", id="high half before text"),
            pytest.param(["\ud83d", "\ud83d", "\ude00"], "\ufffd😀", id="high half twice"),
            pytest.param(["आ", "", "😀"], "आ😀", id="sound text"),
        ],
    )
    def test_text_can_always_be_encoded(self, pieces: list[str], expected: str) -> None:
        joiner = SurrogateJoiner()
        assert "".join(joiner.push(piece) for piece in pieces) + joiner.flush() == expected
