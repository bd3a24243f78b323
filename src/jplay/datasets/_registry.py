"""What each data set is, where it comes from, and which of its files are known."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class KnownFile:
    """One file whose content is pinned by its SHA-256.

    ``url`` is None where the licence forbids fetching without a person's consent, or where no
    stable official address exists; such a file still comes from a mirror the user has set up.
    """

    name: str
    sha256: str
    url: str | None = None


@dataclass(frozen=True)
class DatasetInfo:
    """Where a data set comes from, how to obtain it, and its folder in the data folder."""

    folder: str
    title: str
    source: str
    licence: str
    request: str
    files: tuple[KnownFile, ...] = ()

    def known_file(self, stem):
        """Return the pinned file with this stem, or None."""
        return next((f for f in self.files if f.name.rpartition(".")[0] == stem), None)


INDIAN_PINES = DatasetInfo(
    folder="indian_pines",
    title="Indian Pines (AVIRIS, 1992)",
    source=(
        "Baumgardner, M. F., Biehl, L. L., Landgrebe, D. A. (2015). 220 Band AVIRIS Hyperspectral "
        "Image Data Set: June 12, 1992 Indian Pine Test Site 3. Purdue University Research "
        "Repository. https://doi.org/10.4231/R7RX991C"
    ),
    licence="Creative Commons Attribution 3.0 Unported (CC BY 3.0)",
    request=(
        "The cube needs no file: pip install 'jplay[data]' brings it inside the package "
        "'tensorly'. Otherwise take Indian_pines_corrected.mat and Indian_pines_gt.mat from "
        "https://www.ehu.eus/ccwintco/index.php/Hyperspectral_Remote_Sensing_Scenes"
    ),
    files=(
        KnownFile(
            "IndianTR123_temp123.tif",
            "9f7cb2caea985577c11bbeea1086c9348aa067ab7e3825d2fa671508b4ae6684",
        ),
        KnownFile(
            "IndianTE123_temp123.tif",
            "f7a8e34026ce97a4a21918441f7b03dba0718f63ff2619d1a35dcaa33da24ad3",
        ),
    ),
)

INDIAN_PINES_MASKS = replace(
    INDIAN_PINES,
    title="Fixed training and test masks of Indian Pines",
    licence="Not stated by their authors",
    request=(
        "Ask the authors of the J-Play paper for the masks of their demonstration "
        "(https://github.com/danfenghong/ECCV2018_J-Play), or choose split='random'"
    ),
)

INDIAN_PINES_UNCORRECTED = replace(
    INDIAN_PINES,
    request=(
        "Take the uncorrected image of 220 bands from the Purdue University Research Repository "
        "(https://doi.org/10.4231/R7RX991C)"
    ),
)

HOUSTON2013 = DatasetInfo(
    folder="houston2013",
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
    files=(
        KnownFile(
            "HSI_TrSet.mat", "06d547a98f454631c3d57be1e031c946ed2d7cff82d865acb9fa07f0be944321"
        ),
        KnownFile(
            "TRLabel.mat", "b0ea556a4a05176f4aeccadf3aee51fee35f70365fdaa810aab85190a41aa7fc"
        ),
        KnownFile(
            "TSLabel.mat", "43759d8fd94f0030800238eca04e097a22865b1b396ddb8116b635ade5c301ce"
        ),
    ),
)

EXTENDED_YALE_B = DatasetInfo(
    folder="extended_yale_b",
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
    files=(
        KnownFile(
            "YaleB_32x32.mat", "3fbbda4eb781b9bb28025189677b6727706e114eb0215bbfd718f1f4fcb54b99"
        ),
    ),
)

AR = DatasetInfo(
    folder="ar",
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
    files=(
        KnownFile("AR_DAT.mat", "0e6f2361c339b4d4c7315771c16f3b6e111e7aadc5bf95129d35a61524b8d676"),
    ),
)


def _multilabel(name, title, source, sha256):
    return DatasetInfo(
        folder="multilabel",
        title=title,
        source=f"{source}; train/test split of the Mulan repository",
        licence="Free for research use; cite the source",
        request=(
            f"Take '{name}' from the Mulan repository "
            f"(http://mulan.sourceforge.net/datasets-mlc.html) and unpack {name}-train.arff and "
            f"{name}-test.arff"
        ),
        files=(KnownFile(f"{name}.npz", sha256),),
    )


MULTILABEL = {
    "yeast": _multilabel(
        "yeast",
        "Yeast: functional classes of genes (multi-label)",
        "Elisseeff, A., Weston, J. (2001). A kernel method for multi-labelled classification. NIPS "
        "14",
        "7edcf645dc23217038d38df528863e0d3b5eb77a66129df1250e02bc3a2b2abd",
    ),
    "emotions": _multilabel(
        "emotions",
        "Emotions in music (multi-label)",
        "Trohidis, K., Tsoumakas, G., Kalliris, G., Vlahavas, I. (2008). Multilabel classification "
        "of music into emotions. ISMIR",
        "de0a1d0a0dd319965ebce321ced8d5a433159aa026907ddd569f33320aa338dc",
    ),
    "bibtex": _multilabel(
        "bibtex",
        "BibTeX entries and their tags (multi-label)",
        "Katakis, I., Tsoumakas, G., Vlahavas, I. (2008). Multilabel text classification for "
        "automated tag suggestion. ECML PKDD Discovery Challenge",
        "59527ab7f9ee6b9b9a47d01a06e3ac5113cdfe2437843ee4198f6f6831d08ce6",
    ),
}
