"""Labels from one domain, samples from another; and two sensors at training, one afterwards.

    python benchmarks/domains.py office
    python benchmarks/domains.py draws
    python benchmarks/domains.py sensors
    python benchmarks/domains.py chains
    python benchmarks/domains.py table > benchmarks/results/domains.md

Needs the data folder (JPLAY_DATA). Its folder ``transfer`` holds the four files of Office-Caltech10
(``amazon.mat``, ``Caltech10.mat``, ``dslr.mat``, ``webcam.mat``: SURF counts ``fts``, ``labels``),
ten bands of Indian Pines (``MSI_IndinePine.mat``) and the LiDAR features of Houston
(``houston_LiDAR_TrSet.mat`` and the like). Every result goes to ``benchmarks/results/domains.json``
at once, and what is there is not computed again.
"""

import argparse
import json
import time
import warnings
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from scipy.sparse import block_array, csr_array, eye_array
from scipy.stats import binomtest, wilcoxon
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from jplay import CrossSensorJPlay, DomainJPlay, HeatGraph, JPlay, JPlayCommittee, LiftedJPlay
from jplay.datasets import (
    fetch_houston2013,
    fetch_indian_pines,
    split_per_class,
)
from jplay.datasets.registry import benchmark_file
from jplay.numerics.subsets import surest_share

RECORDS = Path(__file__).parent / "results" / "domains.json"
DOMAINS = {"A": "amazon", "C": "Caltech10", "D": "dslr", "W": "webcam"}
CHOSEN_ON = ("AC", "CW", "WD", "DA", "AW", "DC")
"""Pairs on which methods and their settings were compared; the others were seen for LDA
and its self-training only."""


def read(name, key):
    return loadmat(benchmark_file(f"transfer/{name}.mat"))[key]


def records():
    return json.loads(RECORDS.read_text()) if RECORDS.exists() else {}


def recorded(key, compute):
    """Add what ``compute`` returns to the records, unless it is there."""
    if key in records():
        return
    started = time.perf_counter()
    value = compute()
    RECORDS.write_text(json.dumps(records() | {key: value}, indent=0, sort_keys=True) + "\n")
    print(f"{key}: {value} ({time.perf_counter() - started:.0f} s)", flush=True)


# Office-Caltech10 -----------------------------------------------------------------------------


def lda():
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


def without_adaptation(model):
    return lambda X, y, target: model().fit(X, y).predict(target)


def coral(X, y, target):
    """Correlation alignment (Sun et al. 2016): the source gets the covariance of the target."""
    ridge = np.eye(X.shape[1])
    powers = []
    for samples, power in ((X, -0.5), (target, 0.5)):
        values, vectors = np.linalg.eigh(np.cov(samples.T) + ridge)
        powers.append((vectors * values**power) @ vectors.T)
    return lda().fit(X @ powers[0] @ powers[1], y).predict(target)


def subspace_alignment(X, y, target, n_components=30):
    """Subspace alignment (Fernando et al. 2013): leading components of both domains."""
    own, other = (np.linalg.svd(Z, full_matrices=False)[2][:n_components].T for Z in (X, target))
    return lda().fit(X @ own @ own.T @ other, y).predict(target @ other)


def self_training(model, rounds=5):
    """The surest share of each class joins the training samples, more in every round."""

    def predict(X, y, target):
        seen, labels = X, y
        for number in range(1, rounds + 1):
            fitted = model().fit(seen, labels)
            probabilities = fitted.predict_proba(target)
            chosen, sure = probabilities.argmax(axis=1), probabilities.max(axis=1)
            kept = surest_share(chosen, sure, number / rounds)
            seen = np.concatenate([X, target[kept]])
            labels = np.concatenate([y, fitted.classes_[chosen[kept]]])
        return model().fit(seen, labels).predict(target)

    return predict


def adapting(estimator=None):
    """DomainJPlay with another classifier's subspace, or J-Play's."""

    def predict(X, y, target):
        domain = np.repeat([1, -2], [len(X), len(target)])
        labels = np.concatenate([y, np.full(len(target), -1)])
        model = DomainJPlay(estimator).fit(np.concatenate([X, target]), labels, domain)
        return model.predict(target)

    return predict


def aligned(X, y, target, beta=1.0, rounds=3):
    """J-Play whose graph ties the classes of both domains: the means of a class draw together.

    The manifold term becomes the squared distances between source samples of a class and target
    samples that the last round gave this class, weighed by their probability.
    """
    model, everything = JPlay().fit(X, y), np.concatenate([X, target])
    hidden = np.concatenate([y, np.full(len(target), -1)])
    for _ in range(rounds):
        probabilities = model.predict_proba(target)
        chosen, sure = model.classes_[probabilities.argmax(axis=1)], probabilities.max(axis=1)
        ties = np.zeros((len(everything), len(everything)))
        for label in np.unique(chosen):
            here, there = np.flatnonzero(y == label), np.flatnonzero(chosen == label)
            weight = sure[there] / np.sqrt(len(here) * len(there))
            ties[np.ix_(here, len(X) + there)] = weight
        graph = csr_array(ties + ties.T)
        model = JPlay(graph=graph, beta=beta).fit(everything, hidden)
    return model.predict(target)


def semi_supervised(X, y, target):
    hidden = np.concatenate([y, np.full(len(target), -1)])
    return JPlay().fit(np.concatenate([X, target]), hidden).predict(target)


def committee():
    return JPlayCommittee(15, random_state=0)


OFFICE = {
    "LDA": without_adaptation(lda),
    "1-NN": without_adaptation(lambda: KNeighborsClassifier(1)),
    "CORAL, LDA": coral,
    "subspace alignment, LDA": subspace_alignment,
    "committee": without_adaptation(committee),
    "J-Play": without_adaptation(JPlay),
    "J-Play, target unlabeled": semi_supervised,
    "J-Play, classes tied": aligned,
    "lifted J-Play": without_adaptation(LiftedJPlay),
    "LDA, self-training": self_training(lda),
    "J-Play, self-training": self_training(JPlay, 3),
    "DomainJPlay with LDA": adapting(LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")),
    "DomainJPlay": adapting(),
    "LDA, square roots": without_adaptation(lda),
    "committee, square roots": without_adaptation(committee),
}


DRAWN = ("LDA", "CORAL, LDA", "J-Play", "DomainJPlay with LDA", "DomainJPlay")
"""Methods that are compared on draws of the source."""
N_DRAWN = {"A": 20, "C": 20, "D": 8, "W": 8}
"""Source samples per class."""


def office_domains():
    domains = {}
    for letter, name in DOMAINS.items():
        counts = read(name, "fts").astype(float)
        rows = counts / counts.sum(axis=1, keepdims=True)
        domains[letter] = rows, read(name, "labels").ravel().astype(int)
    return domains


def office(names):
    domains = office_domains()
    for name in names or OFFICE:
        for pair in permutations(DOMAINS, 2):
            samples = [domains[letter] for letter in pair]
            recorded(f"office|{name}|{''.join(pair)}", partial(adapted, name, *samples))


def office_draws(names, n_draws):
    """Few labelled samples of the source, drawn anew; all samples of the target.

    On the pairs on which nothing was chosen.
    """
    domains = office_domains()
    for draw in range(n_draws):
        for letter, other in permutations(DOMAINS, 2):
            if letter + other in CHOSEN_ON:
                continue
            X, y = domains[letter]
            rng = np.random.default_rng(draw)
            rows = np.concatenate(
                [
                    rng.choice(np.flatnonzero(y == label), N_DRAWN[letter], replace=False)
                    for label in np.unique(y)
                ]
            )
            source = X[rows], y[rows]
            for name in names or DRAWN:
                key = f"draws|{name}|{letter}{other}|{draw}"
                recorded(key, partial(adapted, name, source, domains[other]))


def adapted(name, source, target):
    """Accuracy of a method on the target."""
    (X, y), (X_target, truth) = source, target
    if name.endswith("square roots"):
        X, X_target = np.sqrt(X), np.sqrt(X_target)
    X, X_target = (StandardScaler().fit_transform(Z) for Z in (X, X_target))
    return round(100 * float(np.mean(OFFICE[name](X, y, X_target) == truth)), 2)


# Two sensors ----------------------------------------------------------------------------------

N_MEMBERS = 15
N_LABELS = 20
"""Per class in Houston, whose other training pixels are taken to have no label."""


def support_vectors():
    grid = {"svc__C": [10, 100, 1000, 10000], "svc__gamma": [0.03, 0.1, 0.3]}
    return GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid)


def compared(poor, rich, y, labelled, paired, test, seed):
    """Accuracies on the poorer sensor of test samples, and pairs in which two methods differ."""
    truth = y[test]
    known = poor[labelled], y[labelled]
    rows = np.concatenate([labelled, paired])
    hidden = np.concatenate([y[labelled], np.full(len(paired), -1)])
    member = JPlayCommittee(N_MEMBERS, random_state=seed)
    across = CrossSensorJPlay(member, teacher=member, random_state=seed)
    across.fit(poor[rows], hidden, rich[rows])
    right = {
        "SVM": support_vectors().fit(*known).predict(poor[test]) == truth,
        "committee": member.fit(*known).predict(poor[test]) == truth,
        "across sensors": across.predict(poor[test]) == truth,
    }
    found = {name: round(100 * float(hits.mean()), 2) for name, hits in right.items()}
    for rival in ("SVM", "committee"):
        ahead = right["across sensors"] & ~right[rival], right[rival] & ~right["across sensors"]
        found[f"pixels against {rival}"] = [int(hits.sum()) for hits in ahead]
    held = {name: round(100 * score, 2) for name, score in across.held_out_scores_.items()}
    return found | {"taught": len(across.taught_), "held out": held}


def pines():
    """Ten bands and 200 bands of all pixels, classes (0 for none), training and test pixels."""
    scene = fetch_indian_pines(split="fixed")
    y = np.zeros(scene.ground_truth.size, dtype=int)
    y[scene.pixel_indices] = scene.target + 1
    poor = read("MSI_IndinePine", "data_MS_HR").reshape(len(y), -1)
    rich = scene.cube.reshape(len(y), -1)
    places = scene.pixel_indices
    return poor, rich, y, places[scene.train_indices], places[scene.test_indices]


def houston():
    """LiDAR features of training and test pixels, spectra of the former, and classes."""
    poor = [read(f"houston_LiDAR_{part}Set", f"LiDAR_{part}Set") for part in ("Tr", "Te")]
    y = [read(f"houston_{part}Label", f"{part}Label").ravel().astype(int) for part in ("Tr", "Te")]
    return np.concatenate(poor), fetch_houston2013(split=None).data, np.concatenate(y), len(y[0])


def sensor_problems(n_draws):
    """Name, draw and samples of every problem; those that are not drawn come with the first."""
    poor, rich, y, train, test = pines()
    background = np.setdiff1d(np.arange(len(y)), np.concatenate([train, test]))
    poor_2, rich_2, y_2, n_train = houston()
    everything, far = np.arange(n_train), np.arange(n_train, len(y_2))
    for draw in range(n_draws):
        some, rest = split_per_class(y_2[:n_train], N_LABELS, random_state=draw)
        near, away = np.array_split(np.random.default_rng(draw).permutation(test), 2)
        yield "houston|training pixels", draw, (poor_2, rich_2, y_2, some, rest, far)
        yield "pines|half of the test pixels", draw, (poor, rich, y, train, near, away)
        if draw == 0:
            yield "pines|all test pixels", draw, (poor, rich, y, train, test, test)
            yield "pines|background", draw, (poor, rich, y, train, background, test)
            yield "houston|none", draw, (poor_2, rich_2, y_2, everything, far[:0], far)


def sensors(n_draws):
    for name, draw, problem in sensor_problems(n_draws):
        recorded(f"{name}|{draw}", partial(compared, *problem, draw))


def chains(n_draws):
    """J-Play alone, taught by the richer sensor, and with a chain per sensor."""
    for name, draw, problem in sensor_problems(n_draws):
        if name in ("houston|training pixels", "pines|half of the test pixels"):
            recorded(f"chains|{name}|{draw}", partial(compared_chains, *problem))


def compared_chains(poor, rich, y, labelled, paired, test):
    rows = np.concatenate([labelled, paired])
    hidden = np.concatenate([y[labelled], np.full(len(paired), -1)])
    across = CrossSensorJPlay(JPlay(), teacher=JPlay()).fit(poor[rows], hidden, rich[rows])
    predictions = {
        "J-Play": JPlay().fit(poor[labelled], y[labelled]).predict(poor[test]),
        "taught": across.predict(poor[test]),
        "chain per sensor": chain_per_sensor(poor[rows], rich[rows], hidden, poor[test]),
    }
    return {
        name: round(100 * float(np.mean(found == y[test])), 2)
        for name, found in predictions.items()
    }


def chain_per_sensor(poor, rich, y, asked, beta=1.0):
    """J-Play with a projection for each sensor into one subspace, where pairs are neighbours.

    Every sample is there twice, once as each sensor saw it, with zeros for the features of
    the other. So the projection has a block for each sensor; the last column tells which it was.
    """
    scalers = [StandardScaler().fit(Z) for Z in (poor, rich)]
    poor, rich = (scaler.transform(Z) for scaler, Z in zip(scalers, (poor, rich), strict=True))
    pairs = eye_array(len(poor))
    graph = block_array([[HeatGraph()(poor), pairs], [pairs, HeatGraph()(rich)]])
    seen = np.block(
        [
            [poor, np.zeros((len(poor), rich.shape[1])), np.zeros((len(poor), 1))],
            [np.zeros((len(rich), poor.shape[1])), rich, np.ones((len(rich), 1))],
        ]
    )
    model = JPlay(graph=graph.tocsr(), beta=beta).fit(seen, np.concatenate([y, y]))
    asked = scalers[0].transform(asked)
    return model.predict(np.pad(asked, ((0, 0), (0, rich.shape[1] + 1))))


# The tables -----------------------------------------------------------------------------------


def table():
    stored = records()
    print("# Domains and sensors\n\n## Office-Caltech10\n")
    print(
        "Accuracy in % on the target, mean over source-target pairs: all that were measured, those "
        f"on which methods were compared first ({', '.join(CHOSEN_ON)}), and the others. Rows of "
        "counts divided by their sum (or square roots of that), standardised in each domain. All "
        "source samples have labels, no target sample has. LDA has shrinkage; the Wilcoxon test "
        "compares with it over the same pairs.\n"
    )
    pairs = [source + target for source, target in permutations(DOMAINS, 2)]
    rows = {
        name: np.array([stored.get(f"office|{name}|{pair}", np.nan) for pair in pairs])
        for name in OFFICE
    }
    print("| method | pairs | mean | first pairs | others | LDA on these pairs | ahead | p |")
    print("|---" * 8 + "|")
    first = np.isin(pairs, CHOSEN_ON)
    for name, values in rows.items():
        known = np.isfinite(values)
        if not known.any():
            continue
        gain = (values - rows["LDA"])[known]
        means = [values[known & part].mean() for part in (known, first, ~first)]
        means.append(rows["LDA"][known].mean())
        cells = [f"{known.sum()}", *(f"{mean:.1f}" for mean in means)]
        test = [f"{(gain > 0).sum()}", f"{wilcoxon(gain).pvalue:.3f}"] if gain.any() else ["", ""]
        print(f"| {name} | {' | '.join(cells + test)} |")
    print("\n| method | " + " | ".join(pairs) + " |")
    print("|---" * (len(pairs) + 1) + "|")
    for name, values in rows.items():
        if np.isfinite(values).any():
            cells = [f"{value:.1f}" if np.isfinite(value) else "" for value in values]
            print(f"| {name} | {' | '.join(cells)} |")
    draws_table(stored)
    print("\n## Two sensors\n")
    print(
        "Accuracy in % on test pixels by the poorer sensor alone: 10 bands of Indian Pines (200 "
        "at training; 695 labelled pixels), 21 LiDAR features of Houston (144 bands at training; "
        f"{N_LABELS} labels per class, all 2,832 if no pixel lacks one). Committees have "
        f"{N_MEMBERS} members; the SVM is tuned by five folds. *Ahead* are test pixels that one "
        "of both has right, and the binomial test of them; *held out* are the accuracies "
        "on labelled pixels by which the better classifier was chosen.\n"
    )
    print(
        "| scene | pixels without label | draw | SVM | committee | across sensors | "
        "ahead of the committee | p | taught pixels | held out: alone, taught |"
    )
    print("|---" * 10 + "|")
    for key in sorted(key for key in stored if key.startswith(("pines", "houston"))):
        found = stored[key]
        ahead, behind = found["pixels against committee"]
        p = binomtest(ahead, ahead + behind).pvalue if ahead + behind else 1.0
        held = found["held out"]
        cells = [found[name] for name in ("SVM", "committee", "across sensors")]
        cells += [f"{ahead} : {behind}", f"{p:.1g}", found["taught"]]
        cells += [f"{held['alone']}, {held['taught']}" if held else ""]
        print(f"| {' | '.join(map(str, key.split('|') + cells))} |")
    chains_table(stored)


def draws_table(stored):
    """Means over pairs, draw by draw, and tests over draws."""
    pairs = [source + target for source, target in permutations(DOMAINS, 2)]
    pairs = [pair for pair in pairs if pair not in CHOSEN_ON]
    complete = [
        draw
        for draw in range(100)
        if all(f"draws|{name}|{pair}|{draw}" in stored for name in DRAWN for pair in pairs)
    ]
    rows = {
        name: np.array(
            [[stored[f"draws|{name}|{pair}|{draw}"] for pair in pairs] for draw in complete]
        )
        for name in DRAWN
    }
    print("\n### Few source samples, drawn anew\n")
    print(
        f"Mean accuracy in % over {len(complete)} draws of the source (20 samples per class of A "
        f"and C, 8 of D and W) and the pairs {', '.join(pairs)}; the whole target without labels. "
        "*Ahead* are draws in which the mean over pairs is above that of LDA; the Wilcoxon test is "
        "over draws.\n"
    )
    print(f"| method | mean | {' | '.join(pairs)} | ahead | p |")
    print("|---" * (len(pairs) + 4) + "|")
    for name, values in rows.items():
        gain = (values - rows["LDA"]).mean(axis=1)
        cells = [f"{values.mean():.1f}", *(f"{mean:.1f}" for mean in values.mean(axis=0))]
        cells += [f"{(gain > 0).sum()}", f"{wilcoxon(gain).pvalue:.3f}"] if gain.any() else ["", ""]
        print(f"| {name} | {' | '.join(cells)} |")


def chains_table(stored):
    """Chains per sensor, draw by draw against the teacher."""
    print("\n## A chain per sensor\n")
    print(
        "Accuracy in % on test pixels by the poorer sensor alone, mean over draws: J-Play on the "
        "labelled pixels, CrossSensorJPlay with J-Play for both sensors, and J-Play with a "
        "projection per sensor into one subspace where the graph ties both views of a pixel. "
        "The Wilcoxon test compares the last two.\n"
    )
    print("| scene | pixels without label | draws | J-Play | taught | chain per sensor | p |")
    print("|---" * 7 + "|")
    problems = sorted({key.rsplit("|", 1)[0] for key in stored if key.startswith("chains|")})
    for problem in problems:
        found = [value for key, value in stored.items() if key.startswith(f"{problem}|")]
        names = ("J-Play", "taught", "chain per sensor")
        columns = {name: np.array([each[name] for each in found]) for name in names}
        p = wilcoxon(columns["chain per sensor"] - columns["taught"]).pvalue
        cells = [len(found), *(f"{values.mean():.1f}" for values in columns.values()), f"{p:.3f}"]
        print(f"| {' | '.join(map(str, problem.split('|')[1:] + cells))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["office", "draws", "sensors", "chains", "table"])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--methods", nargs="*", help="of Office-Caltech10; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.part == "office":
        office(options.methods)
    elif options.part == "draws":
        office_draws(options.methods, options.draws)
    elif options.part == "sensors":
        sensors(options.draws)
    elif options.part == "chains":
        chains(options.draws)
    else:
        table()


if __name__ == "__main__":
    main()
