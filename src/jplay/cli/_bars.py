"""Progress bars: of work with a known end, of a comparison."""

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class _Bar:
    """A line on a console with a description, a bar and more columns.

    Parameters
    ----------
    console : rich.console.Console
    disable : bool, default=False
        Whether to show nothing.
    """

    def __init__(self, console, *, disable=False):
        line = (TextColumn("{task.description}"), BarColumn(bar_width=24))
        self._bar = Progress(
            *self.leading(), *line, *self.trailing(), console=console, disable=disable
        )
        self._task = None

    def leading(self):
        return (SpinnerColumn(finished_text="✓"),)

    def trailing(self):
        return (TimeElapsedColumn(),)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._bar.stop()


class StepBar(_Bar):
    """A bar with the time left, a function of how much of how much is done; on terminals only."""

    def __init__(self, description, console, *, disable=False):
        super().__init__(console, disable=disable or not console.is_terminal)
        self._description = description

    def trailing(self):
        return TaskProgressColumn(), TimeRemainingColumn(), TextColumn("left")

    def __call__(self, done, total):
        """Show so much of so much; the bar starts with the first call and ends with the last."""
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task(self._description)
        self._bar.update(self._task, completed=done, total=total)
        if done >= total:
            self._bar.stop()


class TaskBar(_Bar):
    """A bar per stage of a comparison: the last finished row and an estimate of the time left."""

    def leading(self):
        return ()

    def trailing(self):
        return MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}")

    def __enter__(self):
        self._bar.start()
        return self

    def __call__(self, progress):
        if progress.label == "starting":
            self._first = progress.n_done
            self._task = self._bar.add_task(progress.recipe, total=progress.n_total, left="")
        computed = progress.n_done - self._first
        left = ""
        if computed:
            remaining = (progress.n_total - progress.n_done) * progress.seconds / computed
            left = f"about {duration(remaining)} left"
        failed = f", {progress.n_failed} failed" if progress.n_failed else ""
        self._bar.update(
            self._task,
            completed=progress.n_done,
            description=f"{progress.recipe}: {progress.label}{failed}",
            left=left,
        )


def duration(seconds):
    """Return a time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
