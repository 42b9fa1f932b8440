"""The Python blocks of the documentation do what they show.

The blocks of a page run in one namespace, from the top of the page to its end, in a folder with the samples in `data`.
A comment at the end of a line, `# -> text`, is what the expression before it is as text. A block below a comment
`<!-- not run: ... -->` is not run.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from conftest import ROOT

PAGES = ("docs/guides/python.md", "docs/guides/ray-and-clusters.md")


def blocks(page: str) -> List[Tuple[int, str]]:
    """Line and text of the Python blocks that are run."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(r"(?m)^(<!-- not run: .*? -->\n\n?)?^```python\n(.*?)^```$", text, re.DOTALL)
    return [(text[: m.start(2)].count("\n") + 1, m[2]) for m in found if m[1] is None]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = blocks(page)
    assert found, "the page was not read"
    if any("hta_engine.ray" in block for _, block in found):
        pytest.importorskip("ray", reason="Ray is not installed")
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    # A cluster of its own: Ray would join one that runs, and wait for one that was killed.
    monkeypatch.setenv("RAY_ADDRESS", "local")
    names: Dict[str, Any] = {}
    checked = 0
    try:
        for line, block in found:
            checked += run(block, names, f"{page}:{line}")
    finally:
        if "ray" in sys.modules:
            # The cluster that the page has started.
            sys.modules["ray"].shutdown()
    assert checked, "no line says what it gives"


def run(block: str, names: Dict[str, Any], place: str) -> int:
    """Runs a block statement by statement; the number of values that were compared."""
    checked, lines = 0, block.splitlines()
    for statement in ast.parse(block).body:
        expected = re.search(r"# -> (.*)$", lines[(statement.end_lineno or 1) - 1])
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), place, "eval"), names)
            if expected is not None:
                assert str(value) == expected[1], f"{place}: {ast.unparse(statement)}"
                checked += 1
        else:
            assert expected is None, f"{place}: only an expression has a value"
            exec(compile(ast.Module([statement], []), place, "exec"), names)
    return checked
