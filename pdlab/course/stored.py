"""What a stored notebook shows: the text of a cell, and how many cells a comparison would compare.

Needs nothing beyond the notebook itself, so that the build, the gate and the grader can share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOT_COMPARED_MIMES = {"image/png", "image/jpeg", "application/vnd.jupyter.widget-view+json"}
NOT_COMPARED_TAGS = {"nbval-ignore-output", "nbval-skip"}
REVEALS = "reveals"  # the tag of a cell whose output answers an exercise above it


def text_of(cell: NotebookNode) -> str:
    """Everything a code cell shows as text, with the HTML and plain forms one after the other."""
    parts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type == "error":
            parts.append(f"{output.ename}: {output.evalue}")
        else:
            parts += [value for mime, value in output.data.items() if mime.startswith("text/") and isinstance(value, str)]
    return "\n".join(parts)


def conceal(notebook: NotebookNode) -> None:
    """Take out what cells tagged ``reveals`` show, so that a learner meets an answer after the attempt, not before.

    Such a cell is run by nbval and not compared; the answers' copy keeps its output, and there it is compared.
    """
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and REVEALS in tags:
            cell.outputs = []
            cell.metadata["tags"] = sorted({*tags, "nbval-ignore-output"})


def is_compared(cell: NotebookNode) -> bool:
    """Whether nbval has something of this cell to compare: it ran, shows more than a picture, is not exempt."""
    if cell.cell_type != "code" or cell.execution_count is None or NOT_COMPARED_TAGS & set(cell.metadata.get("tags", [])):
        return False
    return any(
        output.output_type in ("stream", "error") or set(output.data) - NOT_COMPARED_MIMES for output in cell.outputs
    )


def compared_cells(notebook: NotebookNode) -> int:
    """How many cells of a notebook are compared."""
    return sum(map(is_compared, notebook.cells))
