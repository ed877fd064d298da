"""The router's log: a file of JSON lines, one a request.  A disk that is full costs rows, never an answer."""

from __future__ import annotations

import sys
from pathlib import Path

from pdlab.errors import BadInput


class RowLog:
    """Appends whole lines to ``path``.  The first line that is lost is told on stderr; ``lost`` counts them."""

    def __init__(self, path: Path) -> None:
        self.path, self.lost, self._torn = path, 0, False
        try:
            self._file = path.open("ab", buffering=0)  # a row is there as soon as its request is done
        except OSError as error:
            raise BadInput(f"{path} ({error.strerror})", "a file that can be written", "--log") from None

    def write(self, line: str) -> None:
        """Append ``line``, its newline included, or count it as lost."""
        left = memoryview((b"\n" if self._torn else b"") + line.encode())
        whole = len(left)
        try:
            while left:
                left = left[self._file.write(left) :]
            self._torn = False
        except OSError as error:
            self._torn = self._torn or len(left) < whole  # the next row begins a line of its own
            self.lost += 1
            if self.lost == 1:
                print(f"router: rows of the log are being lost: {self.path}: {error.strerror}; requests are still answered",
                      file=sys.stderr, flush=True)  # fmt: skip

    def close(self) -> None:
        """Close the file, and say how many rows it lacks."""
        self._file.close()
        if self.lost:
            print(f"router: {self.path} lacks {self.lost} rows that could not be written", file=sys.stderr, flush=True)
