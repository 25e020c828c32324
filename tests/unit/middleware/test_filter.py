"""The filter: its entry point, the requests that it leaves to Swift, and its own failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Request

from storlet_middleware.config import ConfigError
from storlet_middleware.filter import filter_factory


def test_all_faults_of_paste_section_and_file_are_reported_at_start(tmp_path: Path) -> None:
    path = tmp_path / "storlet.conf"
    path.write_text("[limits]\nmemori_bytes = 1\npids = x\n")
    with pytest.raises(ConfigError) as caught:
        filter_factory({}, role="proxi", rol="x", storlet_conf_path=str(path))
    for part in (
        "unknown option rol; did you mean role?",
        "role = proxi",
        "did you mean memory_bytes?",
        "pids = x",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize("role", ["proxy", "object"])
def test_entry_point_creates_a_filter_for_each_role(tmp_path: Path, role: str) -> None:
    path = tmp_path / "storlet.conf"
    path.write_text("")

    def swift(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"x"]

    app = filter_factory({}, role=role, storlet_conf_path=str(path), log_name="x")(swift)
    assert Request.blank("/v1/a/c/o").get_response(app).body == b"x"
