"""A page that tells a person what a model is."""

import json
from typing import Any

from jplay._text import markdown_text
from jplay.persistence._model import as_trained_model

_WIDEST_TABLE = 60


def model_card(model: Any) -> str:
    """Describe a model in Markdown: what it expects, what it answers, how it was made.

    Parameters
    ----------
    model : TrainedModel or fitted estimator

    Returns
    -------
    str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jplay import JPlay
    >>> from jplay.persistence import model_card
    >>> X, y = load_iris(return_X_y=True)
    >>> print(model_card(JPlay(3).fit(X, y)).splitlines()[0])
    # Model card: JPlay
    """
    model = as_trained_model(model)
    sections = [
        _heading(model),
        _input(model),
        _classes(model),
        _accuracy(model.metadata),
        _settings(model),
        _use(),
    ]
    return "\n".join(line for section in sections for line in section) + "\n"


def _heading(model):
    facts = model.metadata
    return [
        f"# Model card: {type(model.final_step).__name__}",
        "",
        f"Made with jplay {facts.jplay_version} and scikit-learn {facts.sklearn_version}, "
        f"{facts.created}.",
        "",
    ]


def _input(model):
    facts = model.metadata
    lines = ["## Input", "", f"{model.n_features} features per sample."]
    if facts.wavelengths is not None:
        lines.append(
            f"They are bands from {min(facts.wavelengths):g} to {max(facts.wavelengths):g} nm"
            + (f", out of {facts.n_scene_bands} of the scene." if facts.n_scene_bands else ".")
        )
    elif facts.feature_names is not None:
        shown = ", ".join(markdown_text(name) for name in facts.feature_names[:_WIDEST_TABLE])
        more = len(facts.feature_names) - _WIDEST_TABLE
        lines.append(f"Names: {shown}" + (f" and {more} more." if more > 0 else "."))
    steps = getattr(model.estimator, "steps", [("", model.estimator)])
    lines.append("Steps: " + " → ".join(_call(step) for _, step in steps) + ".")
    return [*lines, ""]


def _call(step):
    return f"`{markdown_text(step).replace('`', '')}`"


def _classes(model):
    counts = model.metadata.training.get("samples_per_class") or {}
    names = model.metadata.class_names or []
    lines = []
    if names:
        lines = ["## Classes", "", "| label | name | training samples |", "|---|---|---|"]
    for label, name in zip(model.classes.tolist(), names, strict=True):
        cells = (label, name, counts.get(str(label), ""))
        lines.append(f"| {' | '.join(markdown_text(cell) for cell in cells)} |")
    source = model.metadata.training.get("source")
    return [*lines, "", *([f"Trained on {markdown_text(source)}.", ""] if source else [])]


def _accuracy(metadata):
    if not metadata.accuracy:
        return [
            "## Accuracy",
            "",
            "Not measured when the model was made. Measure it on samples the model has not seen.",
            "",
        ]
    facts = metadata.accuracy
    lines = ["## Accuracy", "", f"{facts.get('method', 'Measured')}.", ""]
    lines += ["| method | overall accuracy | 95 % interval |", "|---|---|---|"]
    for row in facts.get("compared") or [{"name": "this model", **facts}]:
        ends = (_percent(row.get("low")), _percent(row.get("high")))
        interval = "–" if "–" in ends else " to ".join(ends)
        lines.append(
            f"| {markdown_text(row['name'])} | {_percent(row['overall_accuracy'])} | {interval} |"
        )
    others = {"average accuracy": _percent(facts.get("average_accuracy")), "kappa": "–"}
    if facts.get("kappa") is not None:
        others["kappa"] = f"{facts['kappa']:.4f}"
    told = ", ".join(f"{name} {value}" for name, value in others.items() if value != "–")
    if told:
        lines += ["", f"This model's {told}."]
    return [*lines, "", *(f"- {markdown_text(note)}" for note in facts.get("notes", ())), ""]


def _percent(share):
    return "–" if share is None else f"{100 * share:.1f} %"


def _settings(model):
    settings = {
        name: value if isinstance(value, (int, float, str, bool, type(None))) else str(value)
        for name, value in model.final_step.get_params(deep=False).items()
    }
    lines = ["## Settings", "", "```json", json.dumps(settings, indent=1), "```"]
    sizes = getattr(model.final_step, "layer_sizes_", None)
    if sizes is not None:
        lines.append(f"Subspaces: {model.n_features} → " + " → ".join(str(int(n)) for n in sizes))
    return [*lines, ""]


def _use():
    return [
        "## Use",
        "",
        "```python",
        "from jplay.persistence import load_model",
        "",
        'model = load_model("model.skops")',
        "labels = model.predict(X)",
        "```",
    ]
