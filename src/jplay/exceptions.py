"""Exceptions and warnings that jplay adds to scikit-learn's."""


class CollapsedSolutionError(ValueError):
    """The constraints left nothing but the zero projection."""


class DatasetNotFoundError(FileNotFoundError):
    """A data set is not in the data folder and cannot be downloaded automatically."""


class CorruptFileError(ValueError):
    """A file exists but its content is not what its name promises."""


class MissingDependencyError(ImportError):
    """A feature needs a package that is not installed."""


class UntrustedModelError(ValueError):
    """A model file was changed after it was written, or asks for types that may run code."""


class ModelMismatchError(ValueError):
    """A model was made for other features, bands or wavelengths than the data have."""


class ModelVersionWarning(UserWarning):
    """A model file was written by another version of jplay or scikit-learn."""


class MapWriteError(OSError):
    """A raster could not be written completely; nothing was left under its name."""
