"""The clients for Node against the real server, run by node's own test runner: the official one, and a second one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.contract.conftest import ApiServer
from tests.toolchain import find_node

pytestmark = [pytest.mark.servers, pytest.mark.node]

FOLDER = Path(__file__).with_name("node")


@pytest.mark.parametrize("client", ["openai", "ai_sdk"])
def test_client_passes_its_tests(api_server: ApiServer, client: str, tmp_path: Path) -> None:
    node = find_node()
    assert node, "there is no node; `make ready-tests` brings one"
    assert (FOLDER / "node_modules").is_dir(), "the clients are not installed; `make ready-tests` does it"
    left = tmp_path / "left"
    ran = subprocess.run(
        [node, "--test", "--test-timeout=60000", "--test-reporter=spec", f"{client}.test.js"],
        cwd=FOLDER,
        env={
            **os.environ,
            "API_BASE_URL": api_server.base_url,
            "API_KEY": api_server.api_key,
            "LEFT_STREAMS": str(left),
            "AI_SDK_LOG_WARNINGS": "false",
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    streams = left.read_text().split()
    assert streams, "no test left a stream in the middle"
    for wire_id in streams:
        assert api_server.records.stream(wire_id)["stop_reason"] == "client_disconnect"
