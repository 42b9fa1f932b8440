"""The tables of results: each is read when it is asked for.

The program describes its tables in the files themselves, so nothing about them is written here.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping

import polars as pl

from ._files import ResultFiles
from .errors import HtaError, NoSuchTable

if TYPE_CHECKING:
    import pandas
    import pyarrow


class Tables(Mapping[str, pl.DataFrame]):
    """Tables by name, as Polars frames: `tables["stragglers"]`. Iterating gives the names."""

    def __init__(self, files: ResultFiles) -> None:
        self._files = files

    def __getitem__(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(self.path(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def path(self, name: str) -> Path:
        """The Parquet file of a table; of results in a store, a copy of it in a temporary folder.

        A table without rows has no file among the results: one is made in a temporary folder.

        Raises:
            NoSuchTable: the results do not hold it.
        """
        names = self._names()
        if name in names:
            return self._files.path(f"tables/{name}.parquet")
        close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
        hints = [f"did you mean {', '.join(f'`{c}`' for c in close)}?"] if close else []
        hints.append(f"these results hold: {', '.join(names) or 'no table'}")
        raise NoSuchTable(f"cannot find the table `{name}` in {self._files.place}", "\n".join(hints))

    def lazy(self, name: str) -> pl.LazyFrame:
        """A table as a lazy Polars frame, which reads only what a query needs."""
        return pl.scan_parquet(self.path(name))

    def pandas(self, name: str) -> pandas.DataFrame:
        """A table for pandas (`pip install hta-engine[pandas]`)."""
        path = self.path(name)
        _need("pandas", "pandas")
        return self.arrow(path.stem).to_pandas()

    def arrow(self, name: str) -> pyarrow.Table:
        """A table for PyArrow, with units and meanings in its schema (`pip install hta-engine[arrow]`)."""
        path = self.path(name)
        _need("pyarrow.parquet", "arrow")
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path)

    def schema(self, name: str) -> pl.DataFrame:
        """The columns of a table with type, unit and meaning (`pip install hta-engine[arrow]`)."""
        path = self.path(name)
        _need("pyarrow.parquet", "arrow")
        import pyarrow.parquet

        fields: List[Any] = list(pyarrow.parquet.read_schema(path))
        notes = [{k.decode(): v.decode() for k, v in (f.metadata or {}).items()} for f in fields]
        return pl.DataFrame(
            {
                "column": [f.name for f in fields],
                "type": [str(f.type) for f in fields],
                "unit": [n.get("unit") for n in notes],
                "description": [n.get("description") for n in notes],
            },
            schema={"column": pl.String, "type": pl.String, "unit": pl.String, "description": pl.String},
        )

    def __repr__(self) -> str:
        return f"Tables of {self._files.place}: {', '.join(self._names())}"

    def _ipython_key_completions_(self) -> List[str]:
        return self._names()

    def _names(self) -> List[str]:
        files = [Path(name).stem for name in self._files.names("tables") if name.endswith(".parquet")]
        return sorted({*files, *self._files.empty_tables()})


def _need(module: str, extra: str) -> None:
    """Says how to install an optional library."""
    import importlib

    try:
        importlib.import_module(module)
    except ImportError as error:
        library = module.split(".")[0]
        hint = f"pip install 'hta-engine[{extra}]'"
        raise HtaError(f"cannot do this without {library}: {error}", hint) from error
