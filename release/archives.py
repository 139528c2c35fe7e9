"""Archives that are the same bytes each time."""

from __future__ import annotations

import gzip
import tarfile
from io import BytesIO
from pathlib import Path


def tar_gz(folder: Path, *, time: int) -> bytes:
    """The files of the folder, with its name before theirs; the same bytes each time."""
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            data = file.read_bytes()
            info = tarfile.TarInfo(f"{folder.name}/{file.relative_to(folder).as_posix()}")
            info.size, info.mtime = len(data), time
            info.mode = 0o755 if file.stat().st_mode & 0o100 and file.parent == folder else 0o644
            tar.addfile(info, BytesIO(data))
    return gzip.compress(content.getvalue(), mtime=time)
