"""Figures of an experiment: accuracy over depth, maps, learned faces, convergence."""

import numpy as np

from jplay._optional import import_optional
from jplay.plotting import false_color, plot_convergence, plot_images, plot_maps

MAX_FACES = 20


def draw_figures(experiment, table, folder):
    """Draw what the recipe's data allow, after its run, and return the files."""
    figures = import_optional("matplotlib.figure", feature="Drawing figures", extra="plot")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, draw in (
        ("depth", _draw_depth),
        ("maps", _draw_maps),
        ("faces", _draw_faces),
        ("convergence", _draw_convergence),
    ):
        figure = draw(experiment, table, figures.Figure)
        if figure is not None:
            path = folder / f"{experiment.recipe.name}-{name}.png"
            figure.savefig(path, dpi=110)
            drawn.append(path)
    return drawn


def _draw_depth(experiment, table, new_figure):
    """Accuracy against the number of layers, ours solid and the published dotted."""
    curves = {}
    for entry in table.entries.values():
        if entry.family is not None and entry.mean is not None:
            curves.setdefault((entry.family, entry.classifier), []).append(entry)
    curves = {key: sorted(c, key=lambda e: e.depth) for key, c in curves.items() if len(c) > 1}
    if not curves:
        return None
    families = list(dict.fromkeys(family for family, _ in curves))
    figure = new_figure(figsize=(5.5 * len(families), 4.2), layout="constrained")
    axes = figure.subplots(1, len(families), squeeze=False, sharey=True)[0]
    columns = {name: f"C{i}" for i, name in enumerate(table.classifiers)}
    for (family, column), entries in curves.items():
        ax = axes[families.index(family)]
        depths = [entry.depth for entry in entries]
        ax.plot(depths, [e.mean for e in entries], marker="o", color=columns[column], label=column)
        known = [(e.depth, e.published) for e in entries if e.published is not None]
        if known:
            ax.plot(*zip(*known, strict=True), ":", color=columns[column], label=f"{column}, paper")
        ax.set_title(family)
        ax.set_xlabel("Number of layers")
        ax.set_xticks(range(1, max(e.depth for c in curves.values() for e in c) + 1))
    axes[0].set_ylabel("Overall accuracy (%)")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize="small")
    return figure


def _draw_maps(experiment, table, new_figure):
    """False colour, ground truth and the class map of every method (Figs. 3 and 4)."""
    data = experiment.divided.data
    if data.get("cube") is None or experiment.recipe.maps is None:
        return None
    panels = {}
    for task in experiment.tasks:
        for cell in task.cells:
            path = experiment.map_path(cell)
            if cell.classifier.name == experiment.recipe.maps and path.exists():
                with np.load(path) as kept:
                    panels[task.method.name] = kept["labels"].astype(int)
    if not panels:
        return None
    panels = {
        "False colour": false_color(data.cube, wavelengths=data.get("wavelengths")),
        "Ground truth": data.ground_truth,
        **panels,
    }
    n_columns = 6
    n_rows = -(-len(panels) // n_columns)
    height, width = data.ground_truth.shape
    size = (2.4 * n_columns, 2.4 * n_rows * max(height / width, 0.35) + 0.35 * n_rows + 1.0)
    figure = new_figure(figsize=size, layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for spare in axes[len(panels) :]:
        spare.remove()
    plot_maps(panels, class_names=data.target_names, axes=axes[: len(panels)])
    return figure


def _draw_faces(experiment, table, new_figure):
    """Rows of the collapsed projection as images, back in pixels (Fig. 5), and what they answer to.

    A row is a filter: it also cancels what the other pixels share, and need not resemble a face.
    What it answers to is shown below it.
    """
    shape = experiment.divided.data.get("image_shape")
    fitted = first_fit(experiment, experiment.recipe.faces) if shape is not None else None
    if fitted is None:
        return None
    strongest = np.argsort(-np.linalg.norm(fitted.model.components_, axis=1))
    shown = strongest[:MAX_FACES]
    filters = projection_in_pixels(fitted)[shown]
    patterns = answered_images(experiment.train_test(0)[0], fitted.Z_train)[shown]
    n_columns = 10
    n_rows = 2 * -(-len(shown) // n_columns)
    figure = new_figure(figsize=(n_columns, n_rows * shape[0] / shape[1]), layout="constrained")
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    for rows, axes in ((filters, grid[0::2].ravel()), (patterns, grid[1::2].ravel())):
        plot_images(rows, shape, axes=axes[: len(rows)])
        for spare in axes[len(rows) :]:
            spare.remove()
    return figure


def answered_images(X, Z):
    """Return, for each non-negative feature, the samples' mean weighted by it, less the mean."""
    weights = Z / np.maximum(Z.sum(axis=0), np.finfo(Z.dtype).tiny)
    return weights.T @ X - X.mean(axis=0)


def projection_in_pixels(fitted):
    """Return the collapsed projection of a row's model in the space of its raw samples.

    Steps without a linear inverse (each sample's own maximum) leave the space as it is.
    """
    model = fitted.model
    rows = model.components_
    before = [step for _, step in fitted.pipeline.steps]
    for step in reversed(before[: before.index(model)]):
        if hasattr(step, "components_"):
            rows = rows @ step.components_
    return rows


def _draw_convergence(experiment, table, new_figure):
    fitted = first_fit(experiment, experiment.recipe.convergence)
    if fitted is None:
        return None
    figure = new_figure(figsize=(10, 4), layout="constrained")
    plot_convergence(fitted.model, axes=figure.subplots(1, 2))
    return figure


def first_fit(experiment, name):
    """Return the named row's fit to the first split: a kept one, or once more."""
    task = experiment.first_task(name)
    return None if task is None else experiment.fitted(task, leave=False)
