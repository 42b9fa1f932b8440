"""What is shown in a notebook and on a terminal: progress, reports, errors."""

from __future__ import annotations

import html
import io
import re
import sys
import types
from pathlib import Path
from typing import Any, List

import pytest

import hta_engine
from hta_engine import Progress, _progress


def test_the_report_is_a_page_in_a_frame_of_its_own(result: hta_engine.Result) -> None:
    shown = result.report(height=300)._repr_html_()
    page = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="([^"]*)" [^>]*height="300"[^>]*></iframe>', shown)
    assert page is not None
    assert html.unescape(page[1]) == (result.folder / "report.html").read_text(encoding="utf-8")
    # With both it could reach the notebook and leave the frame.
    assert "allow-scripts" in page[2] and "allow-same-origin" not in page[2]


def test_the_report_is_text_elsewhere(result: hta_engine.Result) -> None:
    text = (result.folder / "report.txt").read_text(encoding="utf-8")
    assert str(result.report()) == repr(result.report()) == result.report().text == text


def test_without_a_page_the_text_is_shown(ddp8: Path) -> None:
    result = hta_engine.analyze(ddp8, only=["idle"], no_events=True, no_html=True)
    shown = result.report()._repr_html_()
    assert shown.startswith("<pre>") and "Verdict" not in shown and "8 ranks" in shown
    with pytest.raises(hta_engine.HtaError, match="hta report"):
        result.report().open()


def test_names_are_not_markup(result: hta_engine.Result, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "<b>out"
    shutil.copytree(result.folder, folder)
    assert "&lt;b&gt;out" in hta_engine.open_results(folder)._repr_html_()


def test_progress_is_told_to_a_function(ddp8: Path) -> None:
    seen: List[Progress] = []
    hta_engine.analyze(ddp8, only=["idle"], progress=seen.append)
    assert seen[-1].ranks_done == seen[-1].ranks == 8
    assert seen[-1].bytes_done == seen[-1].bytes > 200_000 and seen[-1].fraction == 1.0


def test_progress_of_a_terminal_is_a_line_that_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with _progress.Shown(None) as shown:
        assert shown.update is not None
        shown.update(Progress(8, 0, 2_000_000, 1000))
        shown.update(Progress(8, 3, 2_000_000, 900_000))
    lines = terminal.getvalue().split("\r")
    assert lines[1].rstrip() == "hta: 0 of 8 ranks, 1 kB of 2 MB"
    assert lines[2].rstrip() == "hta: 3 of 8 ranks, 900 kB of 2 MB"
    assert lines[3].strip() == "" and lines[4] == ""


def test_nothing_is_shown_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert _progress.Shown(None).update is None
    assert _progress.Shown(False).update is None
    shown = _progress.Shown(True)
    assert shown.update is not None
    shown.update(Progress(2, 1, 0, 0))
    assert "1 of 2 ranks\n" in sys.stderr.getvalue()  # type: ignore[attr-defined]


class FakeHandle:
    def __init__(self, shown: List[Any]) -> None:
        self.shown = shown

    def update(self, value: Any) -> None:
        self.shown.append(value)


def test_a_notebook_has_a_bar_and_needs_no_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: List[Any] = []

    def display(value: Any, display_id: bool) -> FakeHandle:
        assert display_id
        shown.append(value)
        return FakeHandle(shown)

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    ipython.display = types.ModuleType("IPython.display")  # type: ignore[attr-defined]
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with _progress.Shown(None) as progress:
        assert progress.update is not None
        progress.update(Progress(4, 2, 100, 50))
    assert [repr(s).split(",")[0] for s in shown] == ["hta: 2 of 4 ranks", "hta: 2 of 4 ranks"]
    assert 'value="0.5000"' in shown[0]._repr_html_() and "<progress" not in shown[1]._repr_html_()


def test_errors_are_sentences_in_a_notebook() -> None:
    lines = hta_engine.HtaError("cannot read x", "give y")._render_traceback_()
    assert lines == ["HtaError: cannot read x\nhint: give y"]


def test_in_a_real_notebook(ddp8: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [
        f"import hta_engine\nr = hta_engine.analyze({str(ddp8)!r}, only=['stragglers'])\nr",
        "r.report()",
        "hta_engine.analyze('nope')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True)
    client.execute(cwd=str(tmp_path))
    first, report, failed = (cell.outputs for cell in notebook.cells)
    assert any("8 of 8 ranks" in o.data.get("text/plain", "") for o in first if o.output_type == "display_data"), first
    assert any("8 ranks, 8,304 events" in o.data.get("text/html", "") for o in first if o.output_type == "execute_result")
    assert report[0].data["text/html"].startswith("<iframe srcdoc=") and "8 ranks (0-7) on 2 hosts" in report[0].data["text/plain"]
    told = "\n".join(failed[-1].traceback)
    assert told.startswith("HtaError: cannot find `nope`") and "hint: " in told and "_program.py" not in told
