from generation.output import Delta, Hold, HoldCause
from generation.text.holds import HoldLedger, HoldTotals, Wait


def delta(*holds: Hold) -> Delta:
    return Delta(text="x", first_token=0, end_token=1, holds=holds)


class TestHoldLedger:
    def test_totals_are_kept_per_cause(self) -> None:
        ledger = HoldLedger()
        ledger.add(delta(Hold(cause=HoldCause.UTF8, size=2, held_s=0.5)))
        ledger.add(
            delta(Hold(cause=HoldCause.UTF8, size=3, held_s=0.25), Hold(cause=HoldCause.STOP, size=4, held_s=1.0))
        )
        assert ledger.totals == {
            HoldCause.UTF8: HoldTotals(count=2, size=5, total_s=0.75, longest_s=0.5),
            HoldCause.CONTEXT: HoldTotals(),
            HoldCause.STOP: HoldTotals(count=1, size=4, total_s=1.0, longest_s=1.0),
        }

    def test_times_stay_unknown_when_no_delta_knows_them(self) -> None:
        ledger = HoldLedger()
        ledger.add(delta(Hold(cause=HoldCause.STOP, size=4)))
        assert ledger.totals[HoldCause.STOP] == HoldTotals(count=1, size=4, total_s=None, longest_s=None)


class TestWait:
    def test_hold_is_timed_from_its_oldest_part(self) -> None:
        wait = Wait(HoldCause.UTF8)
        assert wait.step(released=0, held=1, at=1.0) is None
        assert wait.step(released=0, held=2, at=2.0) is None
        assert wait.step(released=2, held=0, at=4.0) == Hold(cause=HoldCause.UTF8, size=2, held_s=3.0)
        assert wait.size == 0

    def test_later_part_keeps_its_own_time_when_only_the_older_one_comes_out(self) -> None:
        wait = Wait(HoldCause.STOP)
        wait.step(released=0, held=1, at=1.0)
        wait.step(released=0, held=3, at=2.0)
        assert wait.step(released=2, held=2, at=3.0) == Hold(cause=HoldCause.STOP, size=2, held_s=2.0)
        assert wait.step(released=1, held=1, at=5.0) == Hold(cause=HoldCause.STOP, size=1, held_s=3.0)
        assert wait.step(released=1, held=0, at=6.0) == Hold(cause=HoldCause.STOP, size=1, held_s=3.0)

    def test_time_is_unknown_when_a_push_had_none(self) -> None:
        wait = Wait(HoldCause.STOP)
        wait.step(released=0, held=1, at=None)
        assert wait.step(released=1, held=0, at=2.0) == Hold(cause=HoldCause.STOP, size=1, held_s=None)
