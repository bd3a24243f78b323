"""Every data set by name: its source, accepted files, loader, and how it was checked.

Loaders take names, sizes, accepted files and fingerprints from here, so that what is listed, what
is asked for and what is read cannot differ. ``BENCHMARK_FILES`` lists the files that only
benchmarks and the suite read.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from jplay.datasets._folder import get_data_home, local_file
from jplay.exceptions import CorruptFileError, DatasetNotFoundError

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


@dataclass(frozen=True, eq=False)
class Baseline:
    """Figure that a nearest-neighbor classifier reaches on intact data.

    Attributes
    ----------
    expected : float
        In percent: the accuracy, or the Hamming loss of several labels per sample.
    published : float or None
        Figure of a publication, if there is one.
    tolerance : float
        Largest accepted difference from ``expected``, in points.
    options : dict
        Options of the loader, which choose the split.
    n_neighbors : int
    scaling : {None, "maximum", "standard"}
        Samples divided by their maximum, or features standardized by the training samples.
    n_draws : int
        Number of random splits with 10 training samples per class to average over; 0 for the
        split of the data.
    """

    expected: float
    published: float | None = None
    tolerance: float = 0.05
    options: Mapping[str, Any] = field(default_factory=dict)
    n_neighbors: int = 1
    scaling: str | None = None
    n_draws: int = 0

    def measure(self, loaded):
        """Return the figure that corresponds to ``expected`` for loaded data."""
        from jplay.datasets.splits import RepeatedPerClassSplit

        X, y = loaded.data, loaded.target
        if self.n_draws:
            draws = RepeatedPerClassSplit(10, n_repeats=self.n_draws, random_state=0)
            splits = list(draws.split(X, y))
        else:
            splits = [(loaded.train_indices, loaded.test_indices)]
        return sum(self._measure_split(X, y, *split) for split in splits) / len(splits)

    def _measure_split(self, X, y, train, test):
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.preprocessing import StandardScaler, normalize

        if self.scaling == "maximum":
            X = normalize(X, norm="max")
        elif self.scaling == "standard":
            X = StandardScaler().fit(X[train]).transform(X)
        neighbors = KNeighborsClassifier(self.n_neighbors).fit(X[train], y[train])
        agreement = 100 * float((neighbors.predict(X[test]) == y[test]).mean())
        return agreement if y.ndim == 1 else 100 - agreement


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
    sha256 : dict of str to str
        SHA-256 of public content by part, compared whenever the data set is loaded.
    baselines : tuple of Baseline
        Figures that the tests compare.
    checked : str
        What else was compared, and with what.
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
    sha256: Mapping[str, str] = field(default_factory=dict)
    baselines: tuple[Baseline, ...] = ()
    checked: str = ""

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


def _with_scikit_learn(name, title, loader, sizes, sha256, baseline):
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
        sha256={"data and target": sha256},
        baselines=(baseline,),
        checked="Text files in the package, which a conversion of line ends does not change",
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
    sha256={
        "cube of tensorly": "36468dd7336c8bd37a80cced54362ea426f226703f3797ba494556fd8134e77f",
        "repaired cube": "70c3c9700f3f552d2db98ccbc85d7e5af804ac45b2d746f5b83ba1b9c98bfc71",
        "ground truth": "ebf20cfe0bce98f01885f0ab4fd1857925db3ef0a1f1624bbee3ffcb92425103",
    },
    baselines=(
        Baseline(65.89, published=65.89, options={"split": "fixed"}),
        Baseline(66.45, options={"split": "random"}),
    ),
    checked=(
        "The cube that tensorly 0.9.0 and 0.10.0 ship was converted as text and is repaired. Each "
        "band of the repaired cube correlates by at least 0.997 with 695 spectra that the authors "
        "of the J-Play paper published. Every class occurs in each of the two masks"
    ),
)
CORRUPT_FINGERPRINTS = {
    "dfc1f086504c08cf0647617ed0f7ed718ec377694e913c850583b7f0d8d51da7": "fixed split",
    "fc0b84d77be6834f1e88ba678a7b82a12847d2ca34e4e725e8a9b4c833eb5b47": "random split",
    "be420bb51605e68cf025722b893c824b54f5052a569fc89f49f8bfe0eb1c8ca3": "scene, fixed split",
    "7def536799ed59890ad4175cdc976deddc593e2ea271406e7dbd83500dae44ac": "scene, disjoint split",
}
"""Fingerprints of Indian Pines in records that were made on the cube before its repair."""

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
    baselines=(Baseline(73.20, options={"split": "spatial"}),),
    checked=(
        "Byte values of the spectra or the cube. Every class occurs in both maps. The baseline is "
        "that of the training spectra alone"
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
    baselines=(Baseline(71.82, published=71.71, tolerance=0.01),),
    checked=(
        "Byte values of the images. Every subject occurs. The published figure counts the 502 "
        "correct images among 700, of which subject 77 lacks one here"
    ),
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
    baselines=(Baseline(45.98, published=45.77, scaling="maximum", n_draws=10),),
    checked="Byte values of the images. Every subject occurs",
)


def _multilabel(name, title, source, sha256, sizes, baseline):
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
        baselines=(baseline,),
        checked="Byte values of the arrays; ARFF files are text. Labels are 0 or 1",
    )


DATASETS = {
    entry.name: entry
    for entry in (
        _with_scikit_learn(
            "digits",
            "Handwritten digits, 8 x 8 pixels",
            "load_digits",
            (1797, 64, 10),
            "3c10b5517004a799c0a0eaeb08779965daa13f9c34f9540cdc62a2dd50d4dcf7",
            Baseline(97.30),
        ),
        _with_scikit_learn(
            "wine",
            "Wines of three cultivars",
            "load_wine",
            (178, 13, 3),
            "85d936015b6588cb3e8e024466b8aa87794eafdce2fa5138a17902837bd1610a",
            Baseline(94.92, scaling="standard"),
        ),
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
            baseline=Baseline(20.47, n_neighbors=10),
        ),
        _multilabel(
            "emotions",
            "Emotions in music (multi-label)",
            "Trohidis, K., Tsoumakas, G., Kalliris, G., Vlahavas, I. (2008). Multilabel "
            "classification of music into emotions. ISMIR",
            "de0a1d0a0dd319965ebce321ced8d5a433159aa026907ddd569f33320aa338dc",
            sizes=(391, 202, 72, 6),
            baseline=Baseline(20.79, n_neighbors=10, scaling="standard"),
        ),
        _multilabel(
            "bibtex",
            "BibTeX entries and their tags (multi-label)",
            "Katakis, I., Tsoumakas, G., Vlahavas, I. (2008). Multilabel text classification for "
            "automated tag suggestion. ECML PKDD Discovery Challenge",
            "59527ab7f9ee6b9b9a47d01a06e3ac5113cdfe2437843ee4198f6f6831d08ce6",
            sizes=(4880, 2515, 1836, 159),
            baseline=Baseline(1.47, n_neighbors=10),
        ),
    )
}
"""The data sets in the order in which they are listed."""


@dataclass(frozen=True)
class BenchmarkFiles:
    """Files of the data folder that only benchmarks and the suite read.

    Attributes
    ----------
    title, source, checked : str
    sha256 : dict of str to str
        SHA-256 by path within the data folder, compared whenever the file is read.
    """

    title: str
    source: str
    checked: str
    sha256: Mapping[str, str]


BENCHMARK_FILES = (
    BenchmarkFiles(
        "Samson and Jasper Ridge, unmixing scenes",
        "Zhu, F. (2017). Hyperspectral unmixing: ground truth labeling, datasets, benchmark "
        "performances and survey. arXiv:1708.05125",
        "Byte values of spectra and abundances, which sum to one",
        {
            "mixed/Samson.mat": "4ce4b636feb6f429f8d03ac4ecc94bb97fd87d380ff25ce505765e372d6a1cd9",
            "mixed/EndSamson.mat": (
                "ce768182ce5292390180f827ff5769112cf3d299f4e64ab43e950a310b7ec9fa"
            ),
            "mixed/Jasper.mat": "0e4118a6452f6044978a8ca3762fb0f791115467904936d463c4e111e56e682e",
            "mixed/EndJasper.mat": (
                "92f5697b43705802b904fd13ba99b6ce65a3d203682864abc3fbec922beec374"
            ),
        },
    ),
    BenchmarkFiles(
        "Office-Caltech10, SURF features",
        "Gong, B., Shi, Y., Sha, F., Grauman, K. (2012). Geodesic flow kernel for unsupervised "
        "domain adaptation. CVPR",
        "Byte values of the counts; the baseline is 1-NN, mean of the 12 pairs: 31.4 %",
        {
            "transfer/amazon.mat": (
                "df32548b994e18d364c99e1f317e1fae100597259f0423a41b90f4f68187bb1f"
            ),
            "transfer/Caltech10.mat": (
                "4f9334c8ced489d5054de97a5fd51a61f017f3bcd1f38c9a85c6d78cb9d7bda5"
            ),
            "transfer/dslr.mat": "44d673c68e1d07b837893aa74dba3b986e4a6cc3fd66f0dd357683bdef059216",
            "transfer/webcam.mat": (
                "a6a9c78b4b7181dfbb58bcfd351d4ebd737f171c31247b8884948aa156d3f700"
            ),
        },
    ),
    BenchmarkFiles(
        "Indian Pines, ten simulated bands of Sentinel-2",
        "Simulated from the original cube by others, so that the repair can be compared with it",
        "Byte values; each band is a linear function of those of the repaired cube",
        {
            "transfer/MSI_IndinePine.mat": (
                "77e41a7621500b45b34770068b8f61ef9b8f8d1f0167e371718df53a87b53ae6"
            )
        },
    ),
    BenchmarkFiles(
        "Houston 2013, 21 features of LiDAR",
        "2013 IEEE GRSS Image Analysis and Data Fusion Contest",
        "The heights are rounded, so that byte values show nothing; labels equal those of the maps",
        {
            "transfer/houston_LiDAR_TrSet.mat": (
                "20dfe8bc476af4e9c5b91258319668856c2da5dbb4d6a7dba27c5aed148b5386"
            ),
            "transfer/houston_LiDAR_TeSet.mat": (
                "fae577c169f47010bf7bf44f5b33d1a339ab610c1e2c7803d6e8f2549724eee7"
            ),
            "transfer/houston_TrLabel.mat": (
                "c1185317a8fd0a8b19a87163ca2d57ffc12f490f690e052c74120063f16fe2ae"
            ),
            "transfer/houston_TeLabel.mat": (
                "aa4df0fb9d91ffc30bee19e537f7dd84d28cf74e8e5c16742f42003665315c6e"
            ),
        },
    ),
    BenchmarkFiles(
        "Exam scores of 139 schools",
        "Inner London Education Authority; the multi-task form of Argyriou, A., Evgeniou, T., "
        "Pontil, M. (2008)",
        "Small integers and indicators; the file is compressed with a checksum",
        {
            "multitask/school.mat": (
                "57fb3238fdd03a9aa17276e2ce18d9bbb5d128c3261e794fe6233b58b6909068"
            )
        },
    ),
    BenchmarkFiles(
        "Indian Pines, 695 training spectra",
        "Code that the authors of the J-Play paper published for another paper",
        "Byte values; each band correlates by at least 0.997 with the repaired cube",
        {
            "indian_pines/authors_train_spectra.mat": (
                "2598e1fae162c3e8ecef10fcc4cc52ac502b37f5a869705c7c903edfef0a385d"
            )
        },
    ),
    BenchmarkFiles(
        "Indian Pines, mask of disjoint training fields",
        "A public mask, whose authors are not stated",
        "Every class occurs",
        {
            "indian_pines/indianpines_disjoint_dset.mat": (
                "430c37ce56a160d410378aa136e5e696e2436e2fe03e275f306c3502f622e77b"
            )
        },
    ),
)
"""What benchmarks and the suite read beside the data sets above."""


def benchmark_file(name, data_home=None):
    """Return the path of a file of ``BENCHMARK_FILES`` after comparing its content.

    Parameters
    ----------
    name : str
        Path within the data folder.
    data_home : path-like, optional
        Data folder, see :func:`get_data_home`.
    """
    known = {path: group for group in BENCHMARK_FILES for path in group.sha256}
    if name not in known:
        raise ValueError(f"`name` should be one of {', '.join(known)}, got {name!r}.")
    group = known[name]
    path = get_data_home(data_home) / name
    if not path.is_file():
        raise DatasetNotFoundError(
            f"{group.title}: no file '{path}'. Obtain it from its source and save it under this "
            f"name. Source: {group.source}."
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != group.sha256[name]:
        raise CorruptFileError(
            f"'{path}' should have the SHA-256 {group.sha256[name][:12]}, found {found[:12]}. It "
            f"is damaged or another version: obtain it again. Source: {group.source}."
        )
    return path
