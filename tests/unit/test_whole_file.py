"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unspool.whole_file import whole_file


def test_a_file_takes_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with whole_file(path) as file:
        file.write(b"all of it")
        assert not path.exists()
    assert path.read_bytes() == b"all of it"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("end", [ValueError, KeyboardInterrupt])
def test_what_was_there_stays_where_writing_ends_early(tmp_path: Path, end: type[BaseException]) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"before")

    def write() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise end

    with pytest.raises(end):
        write()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"there is no folder .*none"), whole_file(tmp_path / "none" / "new"):
        raise AssertionError("nothing was opened")


def test_a_pipe_keeps_its_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="it is no regular file"), whole_file(tmp_path / "pipe"):
        raise AssertionError("nothing was opened")
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]
