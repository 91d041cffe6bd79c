from __future__ import annotations

import pytest

from tests.stored_streams import MakeStream, stream_maker


@pytest.fixture
def make_stream(db: None) -> MakeStream:
    return stream_maker(total_s=2.5)
