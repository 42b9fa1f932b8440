"""The report of a run: the page in a notebook, the text elsewhere."""

from __future__ import annotations

import html
import webbrowser
from pathlib import Path

from .errors import HtaError


class Report:
    """The report of a results folder.

    A notebook shows the page, a terminal the text. The page is shown in a frame without access to the notebook: names
    in a trace come from whoever wrote the traced program.
    """

    def __init__(self, folder: Path, height: int = 720) -> None:
        self._folder, self._height = folder, height

    @property
    def text(self) -> str:
        """The text with the sections of all analyses."""
        try:
            return (self._folder / "report.txt").read_text(encoding="utf-8")
        except OSError as error:
            raise HtaError(f"cannot read the report of {self._folder}: {error}") from error

    @property
    def page(self) -> Path:
        """The page, one file that opens offline.

        Raises:
            HtaError: there is none.
        """
        page = self._folder / "report.html"
        if not page.is_file():
            raise HtaError(
                f"cannot find the page of {self._folder}", f"make it with `hta report {self._folder}`"
            )
        return page

    def open(self) -> None:
        """Opens the page in a browser."""
        webbrowser.open(self.page.resolve().as_uri())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        if not (self._folder / "report.html").is_file():
            return f"<pre>{html.escape(self.text)}</pre>"
        page = html.escape(self.page.read_text(encoding="utf-8"), quote=True)
        # Without `allow-same-origin` the page has an origin of its own, so it reaches neither the notebook nor its
        # cookies. `srcdoc` works in saved notebooks and in front ends that serve no local files.
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-popups allow-downloads" width="100%" '
            f'height="{self._height}" style="border: 1px solid #d0d4d9" title="hta report"></iframe>'
        )
