"""``python -m jplay`` is the command ``jplay``."""

from jplay.cli import main

if __name__ == "__main__":
    main()
