"""``jplay data``: which data sets there are, where their files belong, whether they are right."""

from typing import Annotated

import typer

from jplay.cli._errors import Command, Group
from jplay.cli._output import JsonFlag, print_json, results_console

data = typer.Typer(cls=Group, no_args_is_help=False)


@data.callback(invoke_without_command=True)
def data_sets(context: typer.Context, json: JsonFlag = False):
    """List the data sets, say where their files belong, check one of them.

    For example:

      jplay data

      jplay data check indian_pines
    """
    if context.invoked_subcommand is None:
        list_data_sets(json=json)


@data.command("list", cls=Command)
def list_data_sets(json: JsonFlag = False):
    """List every data set: what it is, its licence, and found or which file is missing."""
    facts = collect_data_sets()
    if json:
        print_json(facts)
    else:
        _print_list(facts)


@data.command(cls=Command)
def where(json: JsonFlag = False):
    """Print the data folder; the environment variable JPLAY_DATA chooses another."""
    from jplay.datasets import get_data_home

    home = get_data_home()
    if json:
        print_json({"folder": str(home), "exists": home.is_dir()})
    else:
        typer.echo(str(home))


@data.command(cls=Command)
def check(
    name: Annotated[str, typer.Argument(help="A data set, as jplay data lists them.")],
    json: JsonFlag = False,
):
    """Fetch a data set where that is allowed, read it, and compare it with what it should be."""
    from jplay.datasets import DATASETS, fingerprint

    entry = DATASETS.get(name.replace("-", "_").lower())
    if entry is None:
        from jplay.tables import did_you_mean

        raise ValueError(
            f"NAME should be one of {', '.join(DATASETS)}, got {name!r}."
            f"{did_you_mean(name, list(DATASETS))}"
        )
    loaded = entry.load()
    facts = {
        **_describe(entry),
        "n_samples": int(loaded.data.shape[0]),
        "n_features": int(loaded.data.shape[1]),
        "n_classes": len(loaded.target_names),
        "fingerprint": fingerprint(loaded),
        "files": [str(path) for path in loaded.filenames],
    }
    if json:
        print_json(facts)
        return
    classes = "labels" if loaded.target.ndim == 2 else "classes"
    places = ", ".join(facts["files"]) or f"the package {entry.package}"
    console = results_console()
    console.print(
        f"{facts['title']}: {facts['n_samples']} samples, {facts['n_features']} features, "
        f"{facts['n_classes']} {classes}; read from {places}.",
        f"Content {facts['fingerprint'][:12]}. Licence: {facts['licence']}.",
        f"Checked: {facts['checked']}.",
        sep="\n",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def collect_data_sets():
    """Return the data folder and every data set as plain values."""
    from jplay.datasets import DATASETS, get_data_home

    home = get_data_home()
    sets = []
    for entry in DATASETS.values():
        files = entry.found_files()
        found = files is not None or entry.is_packaged
        missing = [] if found else [str(path) for path in entry.missing_files()]
        place = [str(path) for path in files or []]
        sets.append({**_describe(entry), "found": found, "files": place, "missing": missing})
    return {"folder": str(home), "exists": home.is_dir(), "sets": sets}


def _describe(entry):
    return {
        "name": entry.name,
        "title": entry.title,
        "source": entry.source,
        "licence": entry.licence,
        "how_to_obtain": entry.request,
        "package": entry.package,
        "checked": entry.checked,
    }


def _print_list(facts):
    console = results_console()
    absent = "" if facts["exists"] else " (not there yet)"
    console.print(f"Data folder: {facts['folder']}{absent}", soft_wrap=True, markup=False)
    for entry in facts["sets"]:
        console.print(f"\n{entry['name']}: {entry['title']}", style="bold", soft_wrap=True)
        lines = [f"Licence: {entry['licence']}.", f"Source: {entry['source']}."]
        if entry["files"]:
            lines.append(f"Found: {', '.join(entry['files'])}")
        elif entry["found"]:
            lines.append(f"Found: comes with the package {entry['package']}.")
        else:
            lines += [f"Missing: {path}" for path in entry["missing"]]
            lines.append(f"{entry['how_to_obtain']}.")
        for line in lines:
            console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)
