"""How the files of the package use each other."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Set

import hta_engine

PACKAGE = Path(hta_engine.__file__).parent


def imported(file: Path) -> Set[str]:
    """The files of the package that one imports, also where only a type is meant."""
    found: Set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {name.name for name in node.names}
    return found


def test_no_two_files_need_each_other() -> None:
    uses = {file.stem: imported(file) for file in PACKAGE.glob("*.py")}
    assert {"errors", "_program"} <= uses["_result"]
    # Raises a CycleError that names the files.
    TopologicalSorter(uses).prepare()
