"""One error for everything a person can get wrong: what, where and what to do; and one for what then fails."""

from __future__ import annotations


class BadInput(ValueError):
    """Input that pdlab cannot use.  The command line prints it and exits with status 2.

    ``found`` and ``expected`` are short phrases; ``where`` names a file, key or line;
    ``do`` says how to go on, where that is not plain from the rest.
    """

    def __init__(self, found: str, expected: str, where: str = "", do: str = "") -> None:
        self.found, self.expected, self.where, self.do = found, expected, where, do
        text = f"{where}: " if where else ""
        text += f"found {found}, expected {expected}"
        super().__init__(text + (f". {do}" if do else ""))


class Failed(RuntimeError):
    """Something that was asked for rightly could not be carried out; the message says why.

    The command line prints it and exits with status 1.
    """
