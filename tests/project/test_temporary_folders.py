"""What a killed process leaves is cleared by the next one, and nothing that is in use or somebody else's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from beamlib.files import temporary_folder, write_text

HOLD = """
import os, signal, sys
from pathlib import Path
from beamlib.files import temporary_folder, write_pieces

def half():
    yield b"half"
    os.kill(os.getpid(), signal.SIGKILL)

place = Path(sys.argv[1])
with temporary_folder("mine-", place) as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
    write_pieces(place / "result.json", half())
"""


def holder(place: Path) -> tuple[subprocess.Popen[str], Path]:
    command = [sys.executable, "-c", HOLD, str(place)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def test_a_killed_process_is_cleared_after_and_a_living_one_is_not(tmp_path: Path) -> None:
    others = [tmp_path / "mine-nobodys", tmp_path / "theirs-1"]
    for other in others:
        other.mkdir()
    dead, left = holder(tmp_path)
    living, used = holder(tmp_path)
    dead.communicate("")  # it is killed in the middle of writing a file
    assert dead.returncode == -signal.SIGKILL and (left / "deep" / "file").exists()
    assert len(list(tmp_path.glob(".result.json.*"))) == 1
    with temporary_folder("mine-", tmp_path) as folder:
        assert not left.exists() and (used / "deep" / "file").exists() and all(other.exists() for other in others)
        assert folder.stat().st_mode & 0o777 == 0o700 and not list(folder.iterdir())
    write_text(tmp_path / "result.json", "whole")
    assert (tmp_path / "result.json").read_text() == "whole"
    assert not list(tmp_path.glob(".result.json.*"))
    living.kill()
    living.communicate()
    with temporary_folder("mine-", tmp_path):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "result.json"])


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), temporary_folder("mine-", tmp_path) as folder:
        (folder / "file").write_text("x")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_link_in_the_place_of_a_folder_or_a_lock_leads_nowhere(tmp_path: Path) -> None:
    place, precious = tmp_path / "place", tmp_path / "precious"
    place.mkdir()
    precious.mkdir()
    (precious / "file").write_text("x")
    (place / "mine-a.lock").touch()
    (place / "mine-a").symlink_to(precious)
    (precious / "b.lock").touch()
    (place / "mine-b.lock").symlink_to(precious / "b.lock")
    (place / "mine-b").mkdir()
    with temporary_folder("mine-", place):
        pass
    assert sorted(path.name for path in precious.iterdir()) == ["b.lock", "file"]
    assert (place / "mine-b").is_dir() and (place / "mine-a").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_users_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "mine-a.lock").touch()
    (tmp_path / "mine-a").mkdir()
    for path in tmp_path.iterdir():
        os.chown(path, 65534, 65534)
    with temporary_folder("mine-", tmp_path):
        pass
    assert len(list(tmp_path.iterdir())) == 2


def test_many_at_once_never_take_one_anothers(tmp_path: Path) -> None:
    lost: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(40):
                with temporary_folder("mine-", tmp_path) as folder:
                    (folder / "file").write_text(str(number))
                    assert (folder / "file").read_text() == str(number)
        except BaseException as error:
            lost.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not lost and not list(tmp_path.iterdir())


def test_no_other_code_makes_temporary_folders(repo_root: Path) -> None:
    made = re.compile(r"\b(mkdtemp|TemporaryDirectory)\(")
    found = {path for top in ("beamlib", "packages", "benchmarks") for path in (repo_root / top).rglob("*.py")}
    found.remove(repo_root / "benchmarks/digests.py")  # it compares versions of the product and imports none of it
    assert not [path for path in found if made.search(path.read_text(encoding="utf-8"))]
