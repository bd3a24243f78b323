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
from jplay._optional import install_command
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


COMMANDS = [
    *(
        "fit",
        "tune",
        "bands",
        "predict",
        "map",
        "sample",
        "assess",
        "app",
        "study",
        "report",
        "demo",
        "data",
        "info",
    ),
    *("reproduce", "suite", "ablate"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example_and_no_type_for_flags(command):
    help_text = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    assert any(line.strip().startswith(f"jplay {command}") for line in help_text.splitlines())
    assert "<bool>" not in help_text


def test_help_fills_its_lines():
    help_text = CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "200"}).output
    assert "whole groups or fields if there are any, beside shrinkage LDA" in help_text
    assert "<bool>" not in CliRunner().invoke(app, ["--help"]).output


def test_every_command_is_listed_and_tested():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert names | {"data"} == set(COMMANDS)


@pytest.mark.parametrize("place", ["before", "after"])
def test_quiet_drops_remarks_and_warnings_and_keeps_results(place, tmp_path):
    pytest.importorskip("skops", reason="models need skops")
    pytest.importorskip("pandas", reason="tables need pandas")
    lines = ["a,b,label", *(f"{i % 7},{i % 5},{'xy'[i % 7 > 3]}" for i in range(40))]
    (tmp_path / "own.csv").write_text("\n".join(lines))
    command = ["fit", str(tmp_path / "own.csv"), "--target", "label", "--no-peers", "--cv", "2"]
    command += ["-o", str(tmp_path / "m.skops")]
    quiet = ["-q", *command] if place == "before" else [*command, "-q"]
    result = CliRunner().invoke(app, quiet)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "Accuracy" in result.stdout
    loud = CliRunner().invoke(app, [*command, "--force", "--verbose"])
    assert "Scaling: each column by itself" in loud.stderr
    assert "Fitted: JPlay()" in loud.stderr


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


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["fit", "no.csv", "--target", "y"], "The table 'no.csv' does not exist"),
        (["fit", "no.hdr", "--labels", "no.tif"], "The image 'no.hdr' does not exist"),
        (["tune", "no.csv", "--target", "y"], "The table 'no.csv' does not exist"),
        (["bands", "no.csv", "--target", "y"], "The table 'no.csv' does not exist"),
        (["predict", "no.skops", "no.csv"], "The model 'no.skops' does not exist"),
        (["map", "no.hdr", "--model", "no.skops"], "The image 'no.hdr' does not exist"),
        (["assess", "no.tif", "--reference", "no.tif"], "The map 'no.tif' does not exist"),
        (["report", "no"], "The run 'no' does not exist"),
        (["study", "no.ods"], "should be saved as .xlsx"),
        (["app", "no.tif"], "The scene 'no.tif' does not exist"),
        (["reproduce", "no"], "`recipe` should be one of"),
        (["reproduce", "no.toml"], "No such file or directory: no.toml"),
        (["reproduce", "ar", "--tables-only"], "should hold records"),
    ],
)
def test_wrong_path_is_told_before_anything_heavy_is_imported(arguments, answer, tmp_path):
    done = run_python(
        f"""
        import sys
        from jplay.cli import main
        try:
            main({arguments})
        except SystemExit as stop:
            assert stop.code == 2, stop.code
        print("loaded:", [name for name in {HEAVY} if name in sys.modules and name != "numpy"])
        """,
        cwd=tmp_path,
    )
    assert answer in done.stderr, done.stderr
    assert done.stdout.endswith("loaded: []\n"), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fit", "a.csv", "--method", "committe"], ("--method", "'committe'", "jplay fit --help")),
        (["fit", "a.csv", "--alpha", "abc"], ("--alpha", "jplay fit --help")),
        (["fit", "a.csv", "--wrong"], ("--wrong", "jplay fit --help")),
        (["fit", "a.csv", "b.csv"], ("b.csv", "jplay fit --help")),
        (["data", "chek"], ("'chek'", "jplay data --help")),
        (["fti"], ("'fti'", "jplay --help")),
    ],
)
def test_wrong_use_is_answered_in_one_line(arguments, told):
    result = CliRunner().invoke(app, arguments, prog_name="jplay")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("jplay: ")
    for text in told:
        assert text in line


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
    assert install_command("cli") in done.stderr
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
