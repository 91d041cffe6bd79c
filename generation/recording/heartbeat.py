"""This process's `Worker` row: made when first needed, beaten by the writer thread, on the database's clock.

While its own beats go through, this process also buries dead ones (`reaper`). A row that has vanished means that this
process was itself taken for dead while it was suspended or cut off: it gets a new row and goes on.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from generation.models import Worker
from generation.querysets import MISSED_BEATS
from generation.recording.reaper import reap


class Heartbeat:
    """The row of this process; more than one when several threads needed the first one at the same moment.

    No lock is held while the database works: the caller of `worker_id` may be in a transaction that holds SQLite's
    write lock, for which the beating thread waits.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._worker_ids: list[int] = []
        self._beaten_at = clock()
        self._due_at = self._reap_from = self._beaten_at

    def worker_id(self) -> int:
        """Return the row's key, making the row if there is none yet. From any thread, in a transaction or not."""
        if self._worker_ids:
            return self._worker_ids[0]
        made = Worker.objects.create(hostname=socket.gethostname()[:255], pid=os.getpid()).pk
        # Until then nobody else may use it: the transaction may be rolled back.
        transaction.on_commit(lambda: self._worker_ids.append(made))
        return made

    @property
    def due_in_s(self) -> float:
        """Seconds until `tick` has something to do."""
        return max(0.0, self._due_at - self._clock())

    def tick(self) -> None:
        """Beat if it is time, then reap: at the start, and from then on with each beat. Writer thread only."""
        now = self._clock()
        if now < self._due_at:
            return
        self._beat()
        long = MISSED_BEATS * settings.STREAMSITE_HEARTBEAT_S
        if now - self._beaten_at > long:
            # The database was away, for everybody: the others need time to beat before they can be called dead.
            self._reap_from = now + long
        self._beaten_at = now
        self._due_at = now + settings.STREAMSITE_HEARTBEAT_S
        if now >= self._reap_from:
            reap()

    def _beat(self) -> None:
        beaten = tuple(self._worker_ids)
        found = Worker.objects.filter(pk__in=beaten)
        if found.update(heartbeat_at=Now()) < len(beaten):
            alive = set(found.values_list("pk", flat=True))
            for vanished in set(beaten) - alive:
                self._worker_ids.remove(vanished)
        self.worker_id()
