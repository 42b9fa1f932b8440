"""Progress of a run: a bar in a notebook, a line on a terminal, nothing elsewhere.

A notebook needs no widgets for it: the bar is HTML with a text beside it, for front ends that show only text.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional, TextIO, Union


@dataclass(frozen=True)
class Progress:
    """How far a run is: ranks of the job that are done, and bytes on disk that are read."""

    ranks: int
    ranks_done: int
    bytes: int
    bytes_done: int

    @property
    def fraction(self) -> float:
        """From 0 to 1."""
        if self.bytes > 0:
            return min(self.bytes_done / self.bytes, 1.0)
        return self.ranks_done / self.ranks if self.ranks else 1.0

    def __str__(self) -> str:
        ranks = f"{self.ranks_done} of {self.ranks} rank{'' if self.ranks == 1 else 's'}"
        return f"{ranks}, {_size(self.bytes_done)} of {_size(self.bytes)}" if self.bytes else ranks


#: `None` shows progress where somebody can see it, `False` never; a function is called with it.
ProgressOption = Union[None, bool, Callable[[Progress], None]]


def _size(count: int) -> str:
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


class Shown:
    """What of the progress is shown. Use it in a `with` statement, and pass `update` on."""

    def __init__(self, option: ProgressOption, what: str = "hta") -> None:
        self._what = what
        self._started = time.monotonic()
        self._last: Optional[Progress] = None
        self._draw = self._choose(option)

    def _choose(self, option: ProgressOption) -> Optional[_Drawing]:
        if option is False:
            return None
        if callable(option):
            return _Call(option)
        display = _notebook()
        if display is not None:
            return _Notebook(display)
        if sys.stderr is not None and (option is True or sys.stderr.isatty()):
            return _Line(sys.stderr, sys.stderr.isatty())
        return None

    @property
    def update(self) -> Optional[Callable[[Progress], None]]:
        """Takes progress; `None` if nobody looks at it."""
        return self._update if self._draw is not None else None

    def _update(self, progress: Progress) -> None:
        self._last = progress
        if self._draw is not None:
            self._draw.draw(progress, f"{self._what}: {progress}")

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._draw is not None and self._last is not None:
            seconds = time.monotonic() - self._started
            end = f"{self._last}, {seconds:.1f} s" if kind is None else f"stopped after {self._last}"
            self._draw.close(self._last, f"{self._what}: {end}")


class _Drawing:
    """One way of showing progress."""

    def draw(self, progress: Progress, text: str) -> None:
        raise NotImplementedError

    def close(self, progress: Progress, text: str) -> None:
        self.draw(progress, text)


class _Call(_Drawing):
    """Hands progress to a function of the caller."""

    def __init__(self, function: Callable[[Progress], None]) -> None:
        self._function = function

    def draw(self, progress: Progress, text: str) -> None:
        self._function(progress)

    def close(self, progress: Progress, text: str) -> None:
        pass


class _Line(_Drawing):
    """A line that is written over on a terminal; elsewhere a line for each rank that is done."""

    def __init__(self, stream: TextIO, is_terminal: bool) -> None:
        self._stream, self._is_terminal = stream, is_terminal
        self._width = 0
        self._ranks_done = -1

    def draw(self, progress: Progress, text: str) -> None:
        if self._is_terminal:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif progress.ranks_done != self._ranks_done:
            self._stream.write(text + "\n")
        self._ranks_done = progress.ranks_done
        self._stream.flush()

    def close(self, progress: Progress, text: str) -> None:
        if self._is_terminal:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


class _Notebook(_Drawing):
    """A bar below the cell, which is updated in its place."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def draw(self, progress: Progress, text: str) -> None:
        self._show(_Bar(progress.fraction, text))

    def close(self, progress: Progress, text: str) -> None:
        self._show(_Bar(None, text))

    def _show(self, bar: _Bar) -> None:
        if self._handle is None:
            self._handle = self._display(bar, display_id=True)
        else:
            self._handle.update(bar)


class _Bar:
    """A bar with a text, or the text alone."""

    def __init__(self, fraction: Optional[float], text: str) -> None:
        self._fraction, self._text = fraction, text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        if self._fraction is None:
            return f"<small>{self._text}</small>"
        return f'<progress max="1" value="{self._fraction:.4f}"></progress> <small>{self._text}</small>'


def _notebook() -> Optional[Callable[..., Any]]:
    """The function that displays in a notebook; `None` elsewhere."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    shell = ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display  # type: ignore[no-any-return, unused-ignore]
