"""Results in an object store are opened, read and asked like those in a folder."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any, Set

import pytest
from conftest import SAMPLES

import hta_engine
from hta_engine import HtaError, NoSuchTable

PLACE = "s3://traces/jobs/run 7"


def copies() -> Set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("hta-copies-*")}


def test_results_at_a_url_are_those_of_a_folder(store: Any, result: hta_engine.Result, ddp8: Path) -> None:
    before = copies()
    remote = hta_engine.analyze(ddp8, PLACE)
    assert remote.place == PLACE
    assert store.contents("jobs/run 7/").keys() >= {"summary.json", "report.html", "tables/kernels.parquet"}
    remote = hta_engine.open_results(PLACE)
    assert list(remote.tables) == list(result.tables) and len(remote.tables) > 20
    for name in ("stragglers", "findings", "kernels"):
        assert remote.tables[name].equals(result.tables[name]), name
    assert remote.tables.lazy("kernels").collect().equals(result.tables["kernels"])
    assert remote.findings.equals(result.findings)
    assert remote.summary == result.summary and remote.verdict == result.verdict
    assert remote.events.collect().equals(result.events.collect())
    assert repr(remote).splitlines()[0] == f"{PLACE}: 8 ranks, 8,304 events"
    assert remote.report().text == result.report().text
    assert remote.report().page.read_bytes() == result.report().page.read_bytes()
    assert "<iframe" in remote.report()._repr_html_()
    statement = "SELECT step, COUNT(*) AS count FROM events GROUP BY step ORDER BY step NULLS LAST"
    assert remote.sql(statement).equals(result.sql(statement))
    assert remote.sql("late_ranks").equals(result.sql("late_ranks"))
    with pytest.raises(NoSuchTable, match="did you mean `kernels`"):
        remote.tables["kernel"]
    with pytest.raises(HtaError, match="the results are at s3://"):
        remote.folder  # noqa: B018
    assert copies() > before
    del remote
    gc.collect()
    assert copies() == before


def test_only_what_is_asked_for_is_copied(store: Any, ddp8: Path, tmp_path: Path) -> None:
    hta_engine.analyze(ddp8, PLACE)
    remote = hta_engine.open_results(PLACE)
    folder = remote.tables.path("stragglers").parent
    assert [path.name for path in folder.iterdir()] == ["stragglers.parquet"]
    assert not (folder.parent / "events").exists() and not (folder.parent / "report.html").exists()


def test_the_server_of_a_store_can_be_named(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    result = hta_engine.analyze(SAMPLES / "gpu_single", PLACE, endpoint=store.endpoint, store_timeout=20)
    assert result.tables["ranks"].height == 1 and result.sql("SELECT rank FROM ranks")["rank"].to_list() == [0]
    opened = hta_engine.open_results(PLACE, endpoint=store.endpoint)
    assert opened.findings.equals(result.findings)
    with pytest.raises(HtaError, match="cannot read s3://traces"):
        hta_engine.open_results(PLACE)


def test_what_is_no_result_is_told(store: Any, tmp_path: Path) -> None:
    with pytest.raises(HtaError, match="found nothing there"):
        hta_engine.open_results("s3://traces/none")
    part = "s3://traces/part"
    hta_engine._program.run(["analyze", "--partial", f"--out={part}", str(SAMPLES / "gpu_single")])
    with pytest.raises(HtaError, match="found a partial"):
        hta_engine.open_results(part)
    store.put(SAMPLES / "gpu_single", "job")
    with pytest.raises(HtaError, match="neither summary.json nor partial.json"):
        hta_engine.open_results("s3://traces/job")


def test_results_without_a_page_or_events_say_so(store: Any) -> None:
    result = hta_engine.analyze(SAMPLES / "gpu_single", PLACE, no_html=True, no_events=True)
    assert result.report().text and result.report()._repr_html_().startswith("<pre>")
    with pytest.raises(HtaError, match=r"hta report s3://traces/jobs/run 7 --out report\.html"):
        result.report().page  # noqa: B018
    with pytest.raises(HtaError, match="no_events=True"):
        result.events  # noqa: B018
