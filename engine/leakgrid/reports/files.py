"""Pages and charts as files: whole or not there, and which rows a page was made from.

Each is written apart and renamed, the page last. It ends with the mark of its rows (see
``store/landed``), so that a run with nothing new need not render it again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from leakgrid.outcomes import StoreError
from leakgrid.reports.rows import file_stem


def is_current(folder: Path, job: str, mark: str) -> bool:
    """Whether a page of this very job was made from the rows that have this mark."""
    end = _end(mark)
    for simulated in (False, True):
        with contextlib.suppress(OSError), open(_page(folder, job, simulated), "rb") as page:
            page.seek(-min(len(end), os.fstat(page.fileno()).st_size), os.SEEK_END)
            if mark and page.read() == end:
                return True
    return False


def write(
    folder: Path, job: str, simulated: bool, text: str, mark: str, charts: Mapping[str, str]
) -> list[Path]:
    """Write the page ``text`` and the SVG ``charts`` by name; returns the files, page first.

    Raises StoreError when one cannot be written.
    """
    page = _page(folder, job, simulated)
    svgs = [page.with_suffix(f".{name}.svg") for name in charts]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error
    for path, svg in zip(svgs, charts.values(), strict=True):
        _replace(path, svg.encode())
    _replace(page, text.encode() + b"\n" + _end(mark))
    return [page, *svgs]


def _page(folder: Path, job: str, simulated: bool) -> Path:
    return folder / f"{file_stem(job)}{'.simulated' if simulated else ''}.html"


def _end(mark: str) -> bytes:
    return f"<!-- rows {mark} -->\n".encode()


def _replace(path: Path, content: bytes) -> None:
    """Put ``content`` in the place of a file at once: nobody ever sees half of it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _refused(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path}: cannot be written ({error.strerror}); "
        "make room, or choose another folder with --out"
    )
