"""What an app may read, where it keeps its work, and whom it answers."""

import os
import secrets
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

WORKSPACE_NAME = "jplay-app"
SHORTEST_TOKEN = 12
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class AppSettings:
    """Settings of an app, checked when they are made.

    Attributes
    ----------
    folders : sequence of path-like
        The only folders whose files may be opened; the current one by default.
    workspace : path-like, optional
        Where labels, uploads and results are kept; ``jplay-app`` in the first folder by default.
    scene : path-like, optional
        Scene or table to open first.
    host, port : str, int
        Where to listen.
    token : str, optional
        What a client must know, at least 12 characters. If the host is not the loopback interface
        and none is given, one is made up.
    max_upload : int
        Maximum number of bytes of one upload.
    n_workers : int
        Number of fits that may run at the same time, each in a separate process.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from jplay.app import AppSettings
    >>> AppSettings(folders=[mkdtemp()]).is_shared
    False
    """

    folders: tuple = field(default_factory=lambda: (Path.cwd(),))
    workspace: Path | None = None
    scene: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    max_upload: int = 2 * 2**30
    n_workers: int = 2

    def __post_init__(self):
        folders = tuple(Path(folder).resolve() for folder in self.folders)
        for folder in folders:
            if not folder.is_dir():
                raise FileNotFoundError(f"The folder '{folder}' does not exist. Check the name.")
        workspace = Path(self.workspace or folders[0] / WORKSPACE_NAME).resolve()
        object.__setattr__(self, "folders", folders)
        object.__setattr__(self, "workspace", workspace)
        if self.scene is not None:
            object.__setattr__(self, "scene", Path(self.scene).resolve())
        if self.is_shared and not self.token:
            object.__setattr__(self, "token", secrets.token_urlsafe(24))
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ValueError(
                f"`token` should have at least {SHORTEST_TOKEN} characters, got {len(self.token)}. "
                "Leave it out to have one made up."
            )

    @property
    def is_shared(self):
        """Whether others than this machine can reach the app."""
        try:
            return not ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"

    def find(self, name):
        """Return the file or folder of this name, or refuse if it is not in a folder given.

        Parameters
        ----------
        name : str
            A full path, or one relative to a folder that was given. Links are followed first.

        Returns
        -------
        pathlib.Path
        """
        for folder in self.folders:
            try:
                path = (folder / name).resolve(strict=True)
            except (OSError, ValueError, RuntimeError):
                continue
            if any(path.is_relative_to(root) for root in self.folders):
                return path
        # One answer for what is absent and for what is elsewhere: it tells nothing of other files.
        raise FileNotFoundError(
            f"'{name}' is not in the folders that the app was given: "
            f"{', '.join(map(str, self.folders))}. Start the app with --folder to add one."
        )

    def make_workspace(self):
        """Make the folder for the work, or say what to do if it cannot be written."""
        try:
            self.workspace.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(
                f"'{self.workspace}' cannot be made ({error.strerror}). Name another folder with "
                "--workspace."
            ) from error
        if not os.access(self.workspace, os.W_OK):
            raise PermissionError(
                f"'{self.workspace}' cannot be written. Name another folder with --workspace."
            )
