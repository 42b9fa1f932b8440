"""Analysing, and what is in the results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import warnings
from pathlib import Path

import polars as pl
import pytest
from conftest import SAMPLES, differing

import hta_engine
from hta_engine import HtaError, NoSuchTable, PartialResults


def test_the_results_are_those_of_the_program(
    result: hta_engine.Result, ddp8: Path, real_program: str, tmp_path: Path
) -> None:
    command = [real_program, "analyze", str(ddp8), "--out", str(tmp_path / "out")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert differing(result.folder, tmp_path / "out") == []


def test_tables_are_polars_frames(result: hta_engine.Result) -> None:
    stragglers = result.tables["stragglers"]
    assert isinstance(stragglers, pl.DataFrame)
    assert stragglers["ranks"].cast(pl.String).to_list() == ["3", "5"]
    lazy = result.tables.lazy("kernels").select(pl.len()).collect().item()
    assert lazy == result.tables["kernels"].height > 0
    assert len(result.tables) == len(list(result.tables)) > 50
    assert "stragglers" in result.tables and "straggler" not in result.tables
    assert result.tables._ipython_key_completions_() == list(result.tables)


def test_findings_come_largest_first(result: hta_engine.Result) -> None:
    assert result.findings["kind"].cast(pl.String).to_list()[0] == "straggler"
    assert result.verdict.startswith("Rank 3 is late in all 5 steps")
    assert repr(result).splitlines()[0] == f"{result.folder}: 8 ranks, 8,304 events"


def test_pandas_and_pyarrow_have_the_same_rows(result: hta_engine.Result) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = result.tables.pandas("stragglers")
    assert frame["ranks"].astype(str).tolist() == ["3", "5"]
    assert result.tables["stragglers"].to_pandas().shape == frame.shape
    assert result.tables.arrow("stragglers").num_rows == 2


def test_columns_have_units_and_meanings(result: hta_engine.Result) -> None:
    pytest.importorskip("pyarrow")
    schema = result.tables.schema("kernels")
    dur = schema.row(by_predicate=pl.col("column") == "dur_ns", named=True)
    assert (dur["type"], dur["unit"]) == ("int64", "ns") and dur["description"]


def test_a_table_without_rows_has_its_columns(result: hta_engine.Result) -> None:
    pytest.importorskip("pyarrow")
    name = result.summary["empty_tables"][0]
    assert name in result.tables and not (result.folder / "tables" / f"{name}.parquet").exists()
    frame = result.tables[name]
    assert frame.is_empty() and frame.columns == result.tables.schema(name)["column"].to_list()


def test_an_optional_library_that_is_missing_is_named(
    result: hta_engine.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(HtaError, match=r"hint: pip install 'hta-engine\[arrow\]'"):
        result.tables.schema("kernels")


def test_a_table_that_is_not_there_names_close_ones(result: hta_engine.Result) -> None:
    with pytest.raises(NoSuchTable, match=r"did you mean `stragglers`") as caught:
        result.tables["straglers"]
    assert isinstance(caught.value, KeyError)
    assert result.tables.get("straglers") is None


def test_only_some_analyses(ddp8: Path) -> None:
    result = hta_engine.analyze(ddp8, only=["idle", "sync"], no_events=True)
    assert "idle" in result.tables and "stragglers" not in result.tables
    with pytest.raises(HtaError, match="no_events"):
        result.events.collect()


def test_sql(result: hta_engine.Result) -> None:
    answer = result.sql("SELECT step, COUNT(*) AS count\nFROM kernels -- of all ranks\nGROUP BY step ORDER BY step")
    assert answer.rows() == [(step, 312) for step in range(5)]
    assert result.sql("top_kernels", limit=2).height == 2
    assert result.sql("-- a comment first\nSELECT 1 AS one")["one"].to_list() == [1]
    long = "SELECT 1 AS one -- " + "x" * 300_000
    assert result.sql(long)["one"].to_list() == [1]
    with pytest.raises(HtaError, match="cannot find the table `nope`"):
        result.sql("SELECT * FROM nope")
    with pytest.raises(HtaError):
        result.sql("no_such_query")


def test_events(result: hta_engine.Result) -> None:
    assert result.events.select(pl.len()).collect().item() == result.summary["event_count"] == 8304


def test_a_temporary_folder_lives_as_long_as_its_result(ddp8: Path) -> None:
    result = hta_engine.analyze(ddp8, only=["idle"], no_events=True)
    folder = result.folder
    assert folder.is_dir()
    del result
    assert not folder.exists() and not folder.parent.exists()


def test_options_follow_the_program(ddp8: Path) -> None:
    result = hta_engine.analyze(ddp8, only=["idle"], no_events=True, ranks=[0, 3], steps="@1", no_html=True)
    assert result.tables["ranks"]["rank"].to_list() == [0, 3]
    assert not (result.folder / "report.html").exists()
    with pytest.raises(HtaError, match="unexpected argument '--bogus'"):
        hta_engine.analyze(ddp8, bogus=1)
    with pytest.raises(HtaError, match="invalid value 'idel'"):
        hta_engine.analyze(ddp8, only=["idel"])
    with pytest.raises(HtaError, match="partial"):
        hta_engine.analyze(ddp8, partial=True)


def test_several_files_and_awkward_names(ddp8: Path, tmp_path: Path) -> None:
    folder = tmp_path / "Läufe mit Leerzeichen, 日本 'x' $HOME"
    folder.mkdir()
    for rank in (0, 1):
        shutil.copy(ddp8 / f"rank_{rank}.json.gz", folder / f"räng rank_{rank}.json.gz")
    files = sorted(folder.iterdir())
    result = hta_engine.analyze(files, folder / "aus gabe", only=["idle"])
    assert result.tables["ranks"].height == 2
    assert result.sql("SELECT COUNT(*) AS n FROM ranks")["n"].to_list() == [2]
    assert hta_engine.open_results(os.fspath(folder / "aus gabe")).summary["rank_count"] == 2
    # A name that looks like an option.
    shutil.copy(ddp8 / "rank_0.json.gz", tmp_path / "--rank_0.json.gz")
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert hta_engine.analyze("--rank_0.json.gz", only=["idle"]).summary["rank_count"] == 1
    finally:
        os.chdir(before)


def test_errors_have_the_words_of_the_program(tmp_path: Path) -> None:
    with pytest.raises(HtaError) as caught:
        hta_engine.analyze(tmp_path / "missing")
    assert caught.value.message == f"cannot find `{tmp_path / 'missing'}`: no such file or folder"
    assert caught.value.hint and caught.value.exit_code == 2
    assert str(caught.value).splitlines()[1].startswith("hint: ")
    with pytest.raises(HtaError, match="holds no"):
        hta_engine.analyze(tmp_path)
    (tmp_path / "rank_0.json").write_text("")
    with pytest.raises(HtaError, match="empty file"):
        hta_engine.analyze(tmp_path)
    with pytest.raises(HtaError, match="no traces"):
        hta_engine.analyze([])


def test_a_folder_with_other_files_is_refused_without_force(ddp8: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "notes.txt").write_text("mine")
    with pytest.raises(HtaError, match="notes.txt"):
        hta_engine.analyze(ddp8, output, only=["idle"])
    hta_engine.analyze(ddp8, output, only=["idle"], force=True)
    hta_engine.analyze(ddp8, output, only=["idle"], force=True)
    assert (output / "notes.txt").read_text() == "mine"


def test_a_loss_is_a_warning_and_says_what_is_lost(ddp8: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(ddp8 / "rank_0.json.gz", tmp_path / "in")
    cut = (ddp8 / "rank_1.json.gz").read_bytes()[:20_000]
    (tmp_path / "in" / "rank_1.json.gz").write_bytes(cut)
    (tmp_path / "in" / "rank_2.json.gz").write_bytes(b"")
    with pytest.warns(PartialResults, match="file_truncated") as caught:
        result = hta_engine.analyze(tmp_path / "in", only=["idle"])
    assert "rank_2.json.gz" in str(caught[0].message) and caught[0].filename == __file__
    assert "rank_2.json.gz" in result.messages and "1 file not used" in repr(result)
    assert "file_truncated" in result.tables["health"]["counter"].cast(pl.String).to_list()
    with pytest.raises(HtaError, match="--strict"):
        hta_engine.analyze(tmp_path / "in", only=["idle"], strict=True)


def test_a_condition_that_holds_is_an_error_with_the_results(ddp8: Path) -> None:
    with pytest.raises(hta_engine.ConditionHolds, match="holds") as caught:
        hta_engine.analyze(ddp8, fail_if=["cause(any) > 1%", "cause(data_loader) > 1%"], no_events=True)
    assert caught.value.exit_code == 3
    assert caught.value.result is not None and caught.value.result.findings.height > 0
    hta_engine.analyze(ddp8, fail_if="cause(any) > 99%", no_events=True)


def test_only_results_are_opened(tmp_path: Path, ddp8: Path) -> None:
    for path, found in ((tmp_path / "missing", "nothing"), (ddp8 / "rank_0.json.gz", "a file"), (ddp8, "folder `tables`")):
        with pytest.raises(HtaError, match=f"expected a results folder, found .*{found}"):
            hta_engine.open_results(path)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "partial.json").write_text("{}")
    with pytest.raises(HtaError, match="found a partial"):
        hta_engine.open_results(tmp_path / "part")


def test_results_of_another_version_are_opened_with_a_warning(result: hta_engine.Result, tmp_path: Path) -> None:
    copy = tmp_path / "old"
    shutil.copytree(result.folder, copy)
    summary = json.loads((copy / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**summary, "hta_version": "0.0.1"}))
    with pytest.warns(hta_engine.ResultsOfAnotherVersion, match="hta 0.0.1"):
        opened = hta_engine.open_results(copy)
    assert opened.tables["ranks"].height == 8
    (copy / "summary.json").write_text("[")
    with pytest.raises(HtaError, match="cannot read .*summary.json"):
        hta_engine.open_results(copy)


def test_no_warning_where_all_is_well(ddp8: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hta_engine.analyze(SAMPLES / "gpu_counters")
