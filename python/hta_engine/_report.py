"""The report of a run: the page in a notebook, the text elsewhere."""

from __future__ import annotations

import html
import webbrowser
from pathlib import Path

from ._files import ResultFiles
from .errors import HtaError


class Report:
    """The report of results.

    A notebook shows the page, a terminal the text. The page is shown in a frame without access to the notebook: names
    in a trace come from whoever wrote the traced program.
    """

    def __init__(self, files: ResultFiles, height: int = 720) -> None:
        self._files, self._height = files, height

    @property
    def text(self) -> str:
        """The text with the sections of all analyses."""
        try:
            return self._files.path("report.txt").read_text(encoding="utf-8")
        except OSError as error:
            raise HtaError(f"cannot read the report of {self._files.place}: {error}") from error

    @property
    def page(self) -> Path:
        """The page, one file that opens offline; of results in a store, a copy of it in a temporary folder.

        Raises:
            HtaError: there is none.
        """
        if not self._has_page():
            place = self._files.place
            out = " --out report.html" if self._files.is_remote else ""
            raise HtaError(f"cannot find the page of {place}", f"make it with `hta report {place}{out}`")
        return self._files.path("report.html")

    def open(self) -> None:
        """Opens the page in a browser."""
        webbrowser.open(self.page.resolve().as_uri())

    def _has_page(self) -> bool:
        return "report.html" in self._files.names()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        if not self._has_page():
            return f"<pre>{html.escape(self.text)}</pre>"
        page = html.escape(self.page.read_text(encoding="utf-8"), quote=True)
        # Without `allow-same-origin` the page has an origin of its own, so it reaches neither the notebook nor its
        # cookies. `srcdoc` works in saved notebooks and in front ends that serve no local files.
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-popups allow-downloads" width="100%" '
            f'height="{self._height}" style="border: 1px solid #d0d4d9" title="hta report"></iframe>'
        )
