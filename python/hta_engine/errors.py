"""What can go wrong, with the program's own words.

An error's text is the message that `hta` prints, with its hints on lines of their own.
"""

from __future__ import annotations

import re
from typing import Iterable, List, Optional

__all__ = [
    "HtaError",
    "NoSuchTable",
    "PartialResults",
    "ProgramNotFound",
    "ResultsOfAnotherVersion",
    "WrongProgram",
]


class HtaError(Exception):
    """A command that failed.

    `message` and `hint` are parts of the text; `exit_code` is the program's, if it ran (2: no answer).
    """

    def __init__(self, message: str, hint: Optional[str] = None, exit_code: Optional[int] = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        hints = (self.hint or "").splitlines()
        return "\n".join([self.message, *(line if line.startswith("  ") else f"hint: {line}" for line in hints)])

    def _render_traceback_(self) -> List[str]:
        # Notebooks show the sentence instead of the stack, which is all inside this package.
        return [f"{type(self).__name__}: {self}"]


class ProgramNotFound(HtaError):
    """There is no `hta` program to run."""


class WrongProgram(HtaError):
    """The program is of another version than this package, or is not the `hta` of this package at all."""


class NoSuchTable(HtaError, KeyError):
    """The results do not hold a table of this name."""


class PartialResults(UserWarning):
    """Something in the input could not be used; the results are those of the rest."""


class ResultsOfAnotherVersion(UserWarning):
    """The results were made by another version, whose tables may have other columns."""


#: Exit codes of the program.
DONE, PARTLY, NOTHING, CONDITION = 0, 1, 2, 3


def error_of(lines: Iterable[str], exit_code: int) -> HtaError:
    """The error that the program reported in these lines of its standard error."""
    message: List[str] = []
    hints: List[str] = []
    for line in lines:
        if line.startswith(("Usage: ", "For more information, try")):
            continue
        if line.startswith("hint: "):
            hints.append(line[len("hint: ") :])
        elif hints and line.startswith("  "):
            hints.append(line)
        elif line.strip() or message:
            message.append(re.sub(r"^(hta|error): ", "", line))
    text = "\n".join(message).rstrip()
    if not text:
        text = f"hta ended with exit code {exit_code} and no message"
        if exit_code < 0:
            text = f"hta was ended by signal {-exit_code}"
            if exit_code == -9:
                hints.append("the machine may have run out of memory: give a memory_limit")
    return HtaError(text, "\n".join(hints) or None, exit_code)
