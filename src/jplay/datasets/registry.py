"""Every data set by name: what it is, where it comes from, which files it takes, how it is loaded.

Loaders take names, sizes and accepted files from here, so that what is listed, what is asked for
and what is read cannot differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from jplay.datasets._folder import get_data_home, local_file

_IMAGES = (".mat", ".npy", ".tif", ".tiff")
_MASKS = (".tif", ".tiff", ".mat", ".npy")
_TABLES = (".mat", ".npz")


@dataclass(frozen=True)
class DataFile:
    """A file by the names and formats under which it is accepted, the customary ones first.

    ``sha256`` pins the content of the customary one. ``url`` is None if the licence forbids
    fetching without a person's consent, or if no stable official address exists; such a file
    still comes from a mirror that the user has set up. ``title``, ``licence`` and ``request``
    are given if they differ from those of the data set.
    """

    stems: tuple[str, ...]
    suffixes: tuple[str, ...]
    sha256: str | None = None
    url: str | None = None
    title: str | None = None
    licence: str | None = None
    request: str | None = None

    @property
    def name(self) -> str:
        """The customary name."""
        return f"{self.stems[0]}{self.suffixes[0]}"


@dataclass(frozen=True)
class DatasetEntry:
    """A data set that can be loaded by name.

    Attributes
    ----------
    name, title, source, licence : str
    request : str
        How to obtain it.
    loader : str
        Function of :mod:`jplay.datasets`.
    n_samples, n_features, n_classes : int
        Of what the loader returns by default.
    n_train : int or None
        Training samples of the fixed division, if there is one.
    options : dict
        What the loader is called with.
    folder : str
        Within the data folder.
    files : dict of str to DataFile
        By role.
    layouts : tuple of tuple of str
        Roles of the files any one set of which is enough, the customary set first.
    package : str or None
        An installed package that holds the data.
    class_names : tuple of str
    """

    name: str
    title: str
    source: str
    licence: str
    request: str
    loader: str
    n_samples: int
    n_features: int
    n_classes: int
    n_train: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    files: Mapping[str, DataFile] = field(default_factory=dict)
    layouts: tuple[tuple[str, ...], ...] = ()
    package: str | None = None
    class_names: tuple[str, ...] = ()

    @property
    def n_test(self) -> int:
        """Test samples of the fixed division."""
        return self.n_samples - (self.n_train or 0)

    @property
    def is_packaged(self) -> bool:
        """Whether an installed package holds the data."""
        return self.package is not None and find_spec(self.package) is not None

    def load(self, **options):
        """Load the data set; ``options`` are those of its loader."""
        from jplay import datasets  # whose loaders read this registry

        return getattr(datasets, self.loader)(**{**self.options, **options})

    def found_files(self, data_home=None):
        """Return the files of the first complete layout in the data folder, or None."""
        for layout in self.layouts:
            paths = [local_file(self, role, data_home) for role in layout]
            if None not in paths:
                return paths
        return None

    def missing_files(self, data_home=None):
        """Return where to put the files that the customary layout lacks."""
        folder = get_data_home(data_home) / self.folder
        missing = [role for role in self.layouts[0] if local_file(self, role, data_home) is None]
        return [folder / self.files[role].name for role in missing]


def _listed(names):
    return tuple(names.split(", "))


def _with_scikit_learn(name, title, loader, sizes):
    n_samples, n_features, n_classes = sizes
    return DatasetEntry(
        name,
        title,
        source="UCI Machine Learning Repository, as shipped with scikit-learn",
        licence="Creative Commons Attribution 4.0 International (CC BY 4.0)",
        request="It comes with scikit-learn",
        loader=loader,
        n_samples=n_samples,
        n_features=n_features,
        n_classes=n_classes,
        package="sklearn",
    )


def _mask(stem, sha256):
    return DataFile(
        (stem,),
        _MASKS,
        sha256,
        title="Fixed training and test masks of Indian Pines",
        licence="Not stated by their authors",
        request=(
            "Ask the authors of the J-Play paper for the masks of their demonstration "
            "(https://github.com/danfenghong/ECCV2018_J-Play), or choose split='random'"
        ),
    )


_INDIAN_PINES = DatasetEntry(
    name="indian_pines",
    title="Indian Pines (AVIRIS, 1992)",
    source=(
        "Baumgardner, M. F., Biehl, L. L., Landgrebe, D. A. (2015). 220 Band AVIRIS Hyperspectral "
        "Image Data Set: June 12, 1992 Indian Pine Test Site 3. Purdue University Research "
        "Repository. https://doi.org/10.4231/R7RX991C"
    ),
    licence="Creative Commons Attribution 3.0 Unported (CC BY 3.0)",
    request=(
        "The cube needs no file: the extra 'data' of jplay brings it inside the package "
        "'tensorly'. Otherwise take Indian_pines_corrected.mat and Indian_pines_gt.mat from "
        "https://www.ehu.eus/ccwintco/index.php/Hyperspectral_Remote_Sensing_Scenes"
    ),
    loader="fetch_indian_pines",
    options={"split": None},
    n_samples=10249,
    n_features=200,
    n_classes=16,
    folder="indian_pines",
    files={
        "cube": DataFile(("Indian_pines_corrected",), _IMAGES),
        "every_band": DataFile(
            ("Indian_pines", "19920612_AVIRIS_IndianPine_Site3"),
            _IMAGES,
            request=(
                "Take the uncorrected image of 220 bands from the Purdue University Research "
                "Repository (https://doi.org/10.4231/R7RX991C)"
            ),
        ),
        "ground_truth": DataFile(("Indian_pines_gt",), _IMAGES),
        "train_mask": _mask(
            "IndianTR123_temp123",
            "9f7cb2caea985577c11bbeea1086c9348aa067ab7e3825d2fa671508b4ae6684",
        ),
        "test_mask": _mask(
            "IndianTE123_temp123",
            "f7a8e34026ce97a4a21918441f7b03dba0718f63ff2619d1a35dcaa33da24ad3",
        ),
    },
    layouts=(("cube", "ground_truth"),),
    package="tensorly",
    class_names=_listed(
        "Alfalfa, Corn-notill, Corn-mintill, Corn, Grass-pasture, Grass-trees, "
        "Grass-pasture-mowed, Hay-windrowed, Oats, Soybean-notill, Soybean-mintill, "
        "Soybean-clean, Wheat, Woods, Buildings-Grass-Trees-Drives, Stone-Steel-Towers"
    ),
)

_HOUSTON2013 = DatasetEntry(
    name="houston2013",
    title="Houston (CASI, IEEE GRSS Data Fusion Contest 2013)",
    source=(
        "2013 IEEE GRSS Image Analysis and Data Fusion Contest, Hyperspectral Image Analysis "
        "Laboratory of the University of Houston and the National Center for Airborne Laser Mapping"
    ),
    licence="Research use under the terms of the IEEE GRSS; no redistribution",
    request=(
        "Request the contest data from the IEEE GRSS "
        "(https://hyperspectral.ee.uh.edu/?page_id=459, https://www.grss-ieee.org)"
    ),
    loader="fetch_houston2013",
    n_samples=15029,
    n_features=144,
    n_classes=15,
    n_train=2832,
    folder="houston2013",
    files={
        "cube": DataFile(
            (
                "2013_IEEE_GRSS_DF_Contest_CASI",
                "2013_IEEE_GRSS_DF_Contest_CASI_349_1905_144",
                "Houston",
                "houston",
                "Houston13",
            ),
            _IMAGES,
        ),
        "train_spectra": DataFile(
            ("HSI_TrSet",),
            _IMAGES,
            "06d547a98f454631c3d57be1e031c946ed2d7cff82d865acb9fa07f0be944321",
        ),
        "test_spectra": DataFile(("HSI_TeSet",), _IMAGES),
        "train_map": DataFile(
            ("TRLabel", "2013_IEEE_GRSS_DF_Contest_Samples_TR"),
            _IMAGES,
            "b0ea556a4a05176f4aeccadf3aee51fee35f70365fdaa810aab85190a41aa7fc",
        ),
        "test_map": DataFile(
            ("TSLabel", "2013_IEEE_GRSS_DF_Contest_Samples_VA"),
            _IMAGES,
            "43759d8fd94f0030800238eca04e097a22865b1b396ddb8116b635ade5c301ce",
        ),
    },
    layouts=(("cube", "train_map", "test_map"), ("train_spectra", "train_map", "test_map")),
    class_names=_listed(
        "Healthy grass, Stressed grass, Synthetic grass, Trees, Soil, Water, "
        "Residential, Commercial, Road, Highway, Railway, Parking lot 1, "
        "Parking lot 2, Tennis court, Running track"
    ),
)

_AR = DatasetEntry(
    name="ar",
    title="AR face database, 100 subjects, cropped to 60 x 43",
    source=(
        "Martinez, A. M., Benavente, R. (1998). The AR Face Database. CVC Technical Report 24. The "
        "60 x 43 file is the one used with collaborative-representation classification (Zhang, "
        "Yang, Feng 2011)"
    ),
    licence="Research use only, on request to the authors; no redistribution",
    request=(
        "Request the database from its authors "
        "(https://www2.ece.ohio-state.edu/~aleix/ARdatabase.html) and save the 60 x 43 version "
        "(variables `NewTrain_DAT` 2580 x 700, `trainlabels`, `NewTest_DAT` 2580 x 699, "
        "`testlabels`)"
    ),
    loader="fetch_ar",
    n_samples=1399,
    n_features=2580,
    n_classes=100,
    n_train=700,
    folder="ar",
    files={
        "faces": DataFile(
            ("AR_DAT",),
            _TABLES,
            "0e6f2361c339b4d4c7315771c16f3b6e111e7aadc5bf95129d35a61524b8d676",
        )
    },
    layouts=(("faces",),),
)

_EXTENDED_YALE_B = DatasetEntry(
    name="extended_yale_b",
    title="Extended Yale Face Database B, cropped to 32 x 32",
    source=(
        "Georghiades, Belhumeur, Kriegman (2001), doi 10.1109/34.927464; Lee, Ho, Kriegman (2005), "
        "doi 10.1109/TPAMI.2005.92. The 32 x 32 file is the one prepared by Deng Cai"
    ),
    licence="Free for research use with acknowledgement of the Extended Yale Face Database B",
    request=(
        "Take the 32 x 32 version (2414 images, variables `fea` and `gnd`) from Deng Cai's page of "
        "face data (http://www.cad.zju.edu.cn/home/dengcai/Data/FaceData.html)"
    ),
    loader="fetch_extended_yale_b",
    n_samples=2414,
    n_features=1024,
    n_classes=38,
    folder="extended_yale_b",
    files={
        "faces": DataFile(
            ("YaleB_32x32", "ExtendedYaleB_32x32", "YaleB"),
            _TABLES,
            "3fbbda4eb781b9bb28025189677b6727706e114eb0215bbfd718f1f4fcb54b99",
        )
    },
    layouts=(("faces",),),
)


def _multilabel(name, title, source, sha256, sizes):
    n_train, n_test, n_features, n_labels = sizes
    return DatasetEntry(
        name,
        title,
        source=f"{source}; train/test split of the Mulan repository",
        licence="Free for research use; cite the source",
        request=(
            f"Take '{name}' from the Mulan repository "
            f"(http://mulan.sourceforge.net/datasets-mlc.html) and unpack {name}-train.arff and "
            f"{name}-test.arff"
        ),
        loader="fetch_multilabel",
        options={"name": name},
        n_samples=n_train + n_test,
        n_features=n_features,
        n_classes=n_labels,
        n_train=n_train,
        folder="multilabel",
        files={
            "arrays": DataFile((name,), (".npz", ".mat"), sha256),
            "train": DataFile((f"{name}-train",), (".arff",)),
            "test": DataFile((f"{name}-test",), (".arff",)),
        },
        layouts=(("arrays",), ("train", "test")),
    )


DATASETS = {
    entry.name: entry
    for entry in (
        _with_scikit_learn(
            "digits", "Handwritten digits, 8 x 8 pixels", "load_digits", (1797, 64, 10)
        ),
        _with_scikit_learn("wine", "Wines of three cultivars", "load_wine", (178, 13, 3)),
        _INDIAN_PINES,
        _HOUSTON2013,
        _AR,
        _EXTENDED_YALE_B,
        _multilabel(
            "yeast",
            "Yeast: functional classes of genes (multi-label)",
            "Elisseeff, A., Weston, J. (2001). A kernel method for multi-labelled classification. "
            "NIPS 14",
            "7edcf645dc23217038d38df528863e0d3b5eb77a66129df1250e02bc3a2b2abd",
            sizes=(1500, 917, 103, 14),
        ),
        _multilabel(
            "emotions",
            "Emotions in music (multi-label)",
            "Trohidis, K., Tsoumakas, G., Kalliris, G., Vlahavas, I. (2008). Multilabel "
            "classification of music into emotions. ISMIR",
            "de0a1d0a0dd319965ebce321ced8d5a433159aa026907ddd569f33320aa338dc",
            sizes=(391, 202, 72, 6),
        ),
        _multilabel(
            "bibtex",
            "BibTeX entries and their tags (multi-label)",
            "Katakis, I., Tsoumakas, G., Vlahavas, I. (2008). Multilabel text classification for "
            "automated tag suggestion. ECML PKDD Discovery Challenge",
            "59527ab7f9ee6b9b9a47d01a06e3ac5113cdfe2437843ee4198f6f6831d08ce6",
            sizes=(4880, 2515, 1836, 159),
        ),
    )
}
"""The data sets in the order in which they are listed."""
