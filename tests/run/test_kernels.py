"""Notebooks run in forked kernels: what they import is there already, and none outlives the job that began it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beam_run import executing as notebooks
from beam_run.executing import ROOT, execute_all
from beamlib.errors import UserError
from beamlib.params import usual_parameters

LEAVES_ITS_PID = "import os, pathlib; pathlib.Path(run, 'pid').write_text(str(os.getpid()))"
SLEEPS = f"{LEAVES_ITS_PID}\nimport time; time.sleep(600)"
FAILS = "import pathlib\nwhile not pathlib.Path(run, 'pid').exists(): pass\nraise ValueError('enough')"
SPEAKS = """from ipykernel.connect import get_connection_info
assert get_connection_info(unpack=True)["transport"] == "ipc"
"""
IMPORTS = "import sys\nassert 'colorsys' in sys.modules and 'wave' not in sys.modules\nimport colorsys"
JOB = """import sys
from pathlib import Path
from beamlib.params import usual_parameters
from beam_run import executing as notebooks
if __name__ == "__main__":
    notebooks.NOTEBOOKS = folder = Path(sys.argv[1])
    work = [(name, usual_parameters("100K", run=str(folder)), folder / "pages") for name in sys.argv[2:]]
    list(notebooks.execute_all(work, 2))
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")


def written(folder: Path, **sources: str) -> Path:
    """Notebooks of one cell each, after a tagged cell of parameters."""
    import nbformat  # for two seconds, which every process that only collects tests would take
    from nbformat.v4 import new_code_cell, new_notebook

    for name, source in sources.items():
        cells = [new_code_cell("size = ''\nrun = ''", metadata={"tags": ["parameters"]}), new_code_cell(source)]
        notebook = new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
        nbformat.write(notebook, folder / f"{name}.ipynb")
    return folder


def job(*arguments: str | Path, **variables: str) -> subprocess.Popen[bytes]:
    """A process of its own that runs the notebooks named."""
    return subprocess.Popen(
        [sys.executable, "-c", JOB, *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'packages'}", **variables},
    )


def gone(pid: int, seconds: float) -> bool:
    """Whether a process has ended, waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@linux_only
def test_what_notebooks_import_is_imported_once(tmp_path: Path) -> None:
    written(tmp_path, one=f"{IMPORTS}\n{LEAVES_ITS_PID}", two=f"{IMPORTS}\n{SPEAKS}")
    home = tmp_path / "home"
    home.mkdir()
    assert job(tmp_path, "one", "two", HOME=str(home)).wait() == 0
    assert not list(home.rglob("history*"))  # no cell enters the user's own
    assert {page.name for page in (tmp_path / "pages").glob("*.html")} == {"one.html", "two.html"}
    assert gone(int((tmp_path / "pid").read_text()), 60)


def test_an_error_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "NOTEBOOKS", written(tmp_path, sleeps=SLEEPS, fails=FAILS))
    parameters = usual_parameters("100K", run=str(tmp_path))
    started = time.monotonic()
    with pytest.raises(UserError, match=r"fails\.ipynb stopped in cell 2: ValueError: enough"):
        list(execute_all([(name, parameters, tmp_path / "pages") for name in ("sleeps", "fails", "sleeps")], 2))
    assert time.monotonic() - started < 300
    assert gone(int((tmp_path / "pid").read_text()), 60)


def test_where_no_socket_fits_the_folder_for_temporary_files_jupyter_starts_kernels(tmp_path: Path) -> None:
    place = tmp_path / ("long" * 25)
    place.mkdir()
    running = job(written(tmp_path, ends=LEAVES_ITS_PID), "ends", TMPDIR=str(place))
    assert running.wait(600) == 0
    assert (tmp_path / "pages/ends.html").is_file()


@pytest.mark.slow
@linux_only
def test_a_killed_job_leaves_no_kernel(tmp_path: Path) -> None:
    running = job(written(tmp_path, sleeps=SLEEPS), "sleeps")
    while not (tmp_path / "pid").exists():
        assert running.poll() is None
        time.sleep(0.1)
    time.sleep(1.5)  # the kernel has begun to look for its parent
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert gone(int((tmp_path / "pid").read_text()), 60)
