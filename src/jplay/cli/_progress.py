"""Progress bars: of a fit, through scikit-learn's callbacks, and of work with a known end."""

from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class StepProgress:
    """A bar with the time left, for work that reports how much of how much is done.

    Used as a context manager, it is a function of these two numbers.

    Parameters
    ----------
    description : str
    console : rich.console.Console
    disable : bool, default=False
        Whether to show nothing.
    """

    def __init__(self, description, console, *, disable=False):
        self._bar = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=disable,
        )
        self._description = description

        self._task = None

    def __enter__(self):
        return self

    def __call__(self, done, total):
        """Show so much of so much; the bar starts with the first call and ends with the last."""
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task(self._description)
        self._bar.update(self._task, completed=done, total=total)
        if done >= total:
            self._bar.stop()

    def __exit__(self, *error):
        self._bar.stop()


class FitProgress:
    """Show the stage of a fit, its iteration and how well the model fits its samples so far.

    The number of iterations until convergence is not known, so the bar only fills at the end.

    Parameters
    ----------
    console : rich.console.Console
    disable : bool, default=False
        Whether to show nothing.
    """

    def __init__(self, console, *, disable=False):
        self._bar = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=console,
            disable=disable,
        )
        self._count = {}

    def setup(self, estimator, context):
        self._count = {}
        self._bar.start()
        self._task = self._bar.add_task(f"{context.estimator_name}: starting", total=None)

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        if context.parent is None:
            return
        stage = context.task_name
        self._count[stage] = self._count.get(stage, 0) + 1
        text = f"{context.estimator_name}: {stage} {self._count[stage]}"
        if fitted_estimator is not None:
            text += f", training accuracy {fitted_estimator.score(X, y):.1%}"
        self._bar.update(self._task, description=text)

    def teardown(self, estimator, context):
        self._bar.update(self._task, total=1, completed=1)
        self._bar.stop()
