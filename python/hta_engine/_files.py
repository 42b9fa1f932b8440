"""The files of results: those of a folder, or of an object store, from which each is fetched when it is asked for.

The program reads the store, with the credentials that it finds in the environment, so nothing about stores is written
here.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Dict, List, Mapping, Optional

from . import _program
from .errors import HtaError

#: Options of the program that say how a store is reached.
STORE_OPTIONS = ("endpoint", "store_timeout")


def is_url(place: str) -> bool:
    """Whether results at a place are those of a store."""
    return "://" in place


def store_options(options: Mapping[str, object]) -> Dict[str, object]:
    """Those of the options that say how a store is reached."""
    return {name: options[name] for name in STORE_OPTIONS if options.get(name) is not None}


class ResultFiles:
    """The files of results by their names, such as `summary.json` and `tables/kernels.parquet`."""

    def __init__(self, place: str, store: Optional[Mapping[str, object]] = None) -> None:
        #: The folder or URL, as it was given.
        self.place = place
        #: How the program reaches the store.
        self.store: Dict[str, object] = dict(store or {})
        self._copies: Optional[Path] = None
        self._listed: Optional[List[str]] = None

    @property
    def is_remote(self) -> bool:
        return is_url(self.place)

    def names(self, below: str = "") -> List[str]:
        """Names of the files in a subfolder, or of those directly in the place; sorted.

        Raises:
            HtaError: the store holds no complete results there, or cannot be asked.
        """
        if not self.is_remote:
            folder = Path(self.place, below)
            return sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
        if self._listed is None:
            # They are written once, and complete when they are there.
            listed = _program.run(["files", *self._options(), "--", self.place], wants_output=True)
            self._listed = listed.output.decode("utf-8").splitlines()
        return sorted(name.rpartition("/")[2] for name in self._listed if name.rpartition("/")[0] == below)

    def empty_tables(self) -> List[str]:
        """Names of the tables without rows, which have no file; as in `summary.json`."""
        try:
            summary = json.loads(self.path("summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        names = summary.get("empty_tables") if isinstance(summary, dict) else None
        return [str(name) for name in names] if isinstance(names, list) else []

    def path(self, name: str) -> Path:
        """A file on this machine: itself, or its copy in a temporary folder, which is removed with this object.

        Raises:
            HtaError: the store does not hold it, or cannot be asked.
        """
        own = Path(self.place, name)
        if not self.is_remote and (own.exists() or not name.startswith("tables/")):
            return own
        if self._copies is None:
            self._copies = Path(tempfile.mkdtemp(prefix="hta-copies-"))
            weakref.finalize(self, shutil.rmtree, str(self._copies), ignore_errors=True)
        copy = self._copies / name
        if not copy.exists():
            os.makedirs(copy.parent, exist_ok=True)
            _program.run(["files", f"--out={copy}", *self._options(), "--", self.place, name])
        return copy

    def _options(self) -> List[str]:
        return _program.arguments_of(self.store)
