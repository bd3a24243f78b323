import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import pytest

pytest.importorskip("typer", reason="the command line needs typer")

import typer
from typer.testing import CliRunner

from jplay import __version__
from jplay.cli._app import app
from jplay.cli._errors import CommandGroup, describe
from jplay.exceptions import MissingDependencyError

HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "pandas", "torch", "dask", "tensorly")


def run_python(code, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **kwargs,
    )


def failing_app(error):
    failing = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False)

    @failing.callback()
    def group(debug: bool = False):
        pass

    @failing.command()
    def fail():
        raise error

    return failing


def test_help_lists_the_commands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output
    assert "info" in result.output


def test_help_imports_nothing_heavy():
    done = run_python(
        f"""
        import sys
        from jplay.cli import main
        try:
            main(["--help"])
        except SystemExit as stop:
            assert stop.code == 0, stop.code
        print("loaded:", [name for name in {HEAVY} if name in sys.modules])
        """
    )
    assert done.stdout.endswith("loaded: []\n"), done.stdout + done.stderr


def test_version_is_the_packages():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"jplay {__version__}\n"


def test_missing_typer_is_explained():
    done = run_python(
        """
        import sys
        sys.modules["typer"] = None
        from jplay.cli import main
        main(["--help"])
        """
    )
    assert done.returncode == 2
    assert "pip install 'jplay[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("`x` should be\n positive, got -1."), "`x` should be positive, got -1."),
        (FileNotFoundError(2, "No such file or directory", "a.tif"), "directory: a.tif"),
        (MissingDependencyError("needs pip install 'jplay[plot]'"), "jplay[plot]"),
        (ValueError(), "ValueError"),
    ],
)
def test_mistakes_are_one_line_on_stderr(error, message):
    result = CliRunner().invoke(failing_app(error), ["fail"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("jplay: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


@pytest.mark.parametrize("arguments", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_lets_the_error_through(arguments):
    error = ValueError("told in full")
    assert CliRunner().invoke(failing_app(error), arguments).exception is error


def test_bugs_keep_their_traceback():
    error = KeyError("a bug")
    assert CliRunner().invoke(failing_app(error), ["fail"]).exception is error


def test_interruption_exits_with_130():
    result = CliRunner().invoke(failing_app(KeyboardInterrupt()), ["fail"])
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_interrupting_the_process_exits_with_130(tmp_path):
    # A process started in the background ignores the signal unless it says otherwise.
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from jplay.cli import main
main(["demo", "--data", "digits", "--output-dir", sys.argv[1]])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while not (tmp_path / "out").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in stderr


def test_warnings_are_one_line_without_the_source():
    warning_app = typer.Typer(cls=CommandGroup)

    @warning_app.callback()
    def group():
        pass

    @warning_app.command()
    def warn():
        warnings.simplefilter("always")
        warnings.warn("mind\nthe gap", UserWarning, stacklevel=1)

    result = CliRunner().invoke(warning_app, ["warn"])
    assert result.exit_code == 0
    assert result.stderr == "jplay: warning: mind the gap\n"


def test_describe_names_the_file_of_a_system_error():
    assert describe(PermissionError(13, "Permission denied", "/x")) == "Permission denied: /x"
