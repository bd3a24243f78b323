"""A committee of lifted J-Play chains on random shares of the features."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from jplay._estimator_base import float_dtypes
from jplay._fitting import stores_at_end
from jplay._rowwise import by_rows
from jplay.core.arrays import Array, is_numpy, like, namespace, rows_of, to_numpy
from jplay.core.objective import Objective, Ridge
from jplay.core.targets import encode_targets, put_classes_like
from jplay.core.threads import available_threads, sample_threads
from jplay.estimators._outputs import OutputClassifier
from jplay.estimators.additive_chain import AdditiveChain, additive_chain
from jplay.estimators.lifted_chain import (
    Lift,
    LiftedChain,
    View,
    lifted_chain,
    standardised_view,
    supervised_view,
    with_landmarks,
)
from jplay.estimators.stages import StageData, merge_labels, round_to_single
from jplay.numerics.kernels import squared_distances
from jplay.numerics.lift import landmark_indices
from jplay.numerics.subsets import class_folds, supervised_subset_sizes
from jplay.numerics.votes import (
    LEAST_NEIGHBOR_VOTE,
    LEAST_VOTE,
    decided,
    logistic,
    margin_weights,
    neighbor_votes,
    odds_calibration,
    sharpened,
    sharpening_exponent,
    shifted_odds,
    softmax,
    vote_weights,
)

N_FOLDS = 5
WIDTHS = (0.5, 1.0, 2.0)
"""Of the kernels, in median distances; members take them in turn."""
KINDS = (
    *(("supervised", size) for size in range(5)),
    ("plain", 1.0),
    ("standardised", 1.0),
    ("additive", 1.0),
    ("normalised", 1.0),
    ("normalised", 0.5),
)
"""What a member sees first: J-Play on a few features (one of five numbers of them, see
:func:`supervised_subset_sizes`), the features themselves, features divided by their deviation
within classes, ramps of the features, or samples divided by their length; all of these features
or half."""
SEES_ALL = tuple(size == 4 if sort == "supervised" else size == 1.0 for sort, size in KINDS)
"""Members of these kinds see all features, and hardly differ from each other."""
MOST_MEMBERS = np.array([1 if sort == "additive" else np.inf for sort, _ in KINDS])
"""Nothing is drawn at random in an additive member: a second would be the same."""
TRIALS_PER_MEMBER = 2.0
"""Members that see four fifths of the samples, to judge their kinds, for each that stays."""
SECOND = Objective(alpha=10.0, beta=0.1, penalty=Ridge(0.1))
CAUTIOUS = Objective(alpha=1.0, beta=0.1, penalty=Ridge(1.0))
"""Of standardised members, which have wider kernels and more neighbours too: they do not follow
the noise if classes overlap."""
CAUTIOUS_WIDTH = 2
CAUTIOUS_NEIGHBORS = 5
"""Times as wide, and as many."""
EXTRA_COMPONENTS = 4
"""Components of the last subspace beyond the number of outputs."""
VOTES = ("neighbors", "projection")
SHARPNESS = {
    "neighbors": (0.5, 0.7, 1.0, 1.4, 2.0),
    "projection": (4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0),
}
"""Powers of neighbours' votes and factors of outputs before they become probabilities. With a
hundred classes outputs lie near 0.3 and want a large factor; with two a small one."""
LEAST_WEIGHT = 0.02
"""Of all votes, below which a kind of vote is left out of predictions."""
MAX_SAMPLES = 4000
"""Training samples of one member, at most: its cost grows with their square."""
MAX_TRIAL_SAMPLES = 2000
"""The same for a member on trial."""
MORE_LANDMARKS = 4
"""Times as many landmarks and coordinates if samples are normalised: each of many words tells
something, and no few documents stand for all."""
CLEAR_GAIN = 0.9
"""Of the loss on samples left out, below which samples without label take part. On digits with
three labels per class it was 0.5 to 0.7, and they gained ten points; on spectra with five 0.97 to
1.1, and they lost three."""
MAX_RAMPED = 2**22
"""Numbers of which ramps are made in one member, at most: 200 MiB in all."""
SPARSE_SHARE = 0.9
"""Of the entries that are zero, from which on samples are taken to be counts, as of words."""
UNITS_APART = 1e3
"""Ratio of the magnitudes of features beyond which they are taken to have different units."""
_ROWS_AT_ONCE = 2048
_MEMBERS_BETWEEN = 3
"""Members that vote before samples whose labels are decided are left out."""
_KEPT_SHARE = 0.9
"""Of the samples, below which it pays to leave the others out."""
_CLOSE = 0.01
"""Lead of a label, in shares of all votes, up to which it is found again in the precision of the
samples. On 9,671 pixels of Indian Pines (the corrupt cube) single precision moved the votes of one
in a hundred by as much, and changed no label with a larger lead."""
_DEVICE_ROWS = 2**19
_MAX_THREADS = 4
"""That fit members: they share one interpreter, and sixteen took longer than four."""


@dataclass(frozen=True, eq=False)
class Member:
    """One chain, and the training samples among which it seeks neighbours."""

    kind: int
    chain: LiftedChain | AdditiveChain
    neighbors: Any
    """(n_samples, n_components) features of training samples."""
    indicators: Any
    """(n_samples, n_outputs) their targets."""
    n_neighbors: int
    """How many of them vote."""
    weight: Any = None
    """(n_samples,) by which their votes are multiplied; ``None`` for ones."""

    def votes(self, X: Array, wanted: Any) -> list[Array | None]:
        """Votes of every wanted sort for samples; ``None`` for the others."""
        features, projection = self.chain(X)
        by_neighbors = None
        if wanted[0]:
            distances = squared_distances(features, like(self.neighbors, features), clipped=False)
            weight = None if self.weight is None else like(self.weight, features)
            by_neighbors = neighbor_votes(
                distances, like(self.indicators, features), self.n_neighbors, weight
            )
        return [by_neighbors, projection if wanted[1] else None]

    @property
    def cost(self) -> int:
        """Multiply-adds of its votes on one sample."""
        return self.chain.cost + self.neighbors.size


@dataclass(frozen=True, eq=False)
class Training:
    """Samples of a fit, those with a label first."""

    X: Array
    Y: np.ndarray
    """(n_labelled, n_outputs) indicators."""
    folds: np.ndarray
    """(n_labelled,)"""
    weight: np.ndarray | None
    """(n_labelled,) in the prediction loss and in votes."""
    multilabel: bool
    class_weight: Any = None
    """Of labels; that of classes is part of the weight."""

    def subset(self, seen: np.ndarray, limit: int, rng: np.random.Generator) -> "Training":
        """Some labelled samples and as many of the others as a member can take."""
        others = np.arange(len(self.Y), self.X.shape[0])
        others = _at_most(max(0, limit - len(seen)), others, rng)
        return replace(
            self,
            X=rows_of(self.X, np.concatenate([seen, others])),
            Y=self.Y[seen],
            folds=self.folds[seen],
            weight=None if self.weight is None else self.weight[seen],
        )

    @property
    def partial(self) -> bool:
        """Whether some samples have no label."""
        return self.X.shape[0] > len(self.Y)

    def labelled_only(self) -> "Training":
        """The samples with a label."""
        return replace(self, X=self.X[: len(self.Y), :])

    def marks(self, Y: np.ndarray) -> np.ndarray:
        """Targets in plain numbers from indicators ``Y``, -1 for samples without label."""
        return merge_labels(Y, self.X.shape[0], self.multilabel)

    def inputs(self, Y: np.ndarray) -> StageData:
        """These samples with targets from indicators ``Y``, as a fit takes them."""
        if self.weight is None:
            weight = None
        else:
            n_others = self.X.shape[0] - len(self.Y)
            weight = np.concatenate([self.weight, np.ones(n_others)])
        marker = -1 if self.partial else None
        return StageData(self.X, self.marks(Y), marker, weight, self.class_weight)


@dataclass(frozen=True)
class Plan:
    """What one member is to do."""

    kind: int
    fold: int | None
    """Which samples it does not see; ``None`` if it sees all."""
    width: float
    seed: int


@dataclass(frozen=True, eq=False)
class Draft:
    """What one member sees; all that is drawn at random is drawn here."""

    plan: Plan
    inside: Training
    """The samples that it learns from."""
    unseen: np.ndarray
    """Which samples it has not seen and votes on."""
    present: np.ndarray
    """Which classes or labels its samples have."""
    features: np.ndarray | None
    """Which features it sees; ``None`` for all."""
    landmarks: np.ndarray
    """Which of its samples are the landmarks."""

    @property
    def sort(self) -> str:
        """What it sees first, see :data:`KINDS`."""
        return KINDS[self.plan.kind][0]

    @property
    def cautious(self) -> bool:
        """Whether it is not to follow noise, see :data:`CAUTIOUS`."""
        return self.sort == "standardised"

    @property
    def known(self) -> np.ndarray:
        """Indicators of the classes that are present."""
        return self.inside.Y[:, self.present]

    @property
    def inputs(self) -> StageData:
        """Samples and targets, as a fit takes them."""
        return self.inside.inputs(self.known)

    @property
    def size(self) -> int:
        """How many numbers its samples are, with their similarities to landmarks."""
        n_samples, n_features = self.inside.X.shape
        return n_samples * (n_features + len(self.landmarks))


class JPlayCommittee(OutputClassifier, BaseEstimator):
    r"""A committee of lifted J-Play chains, each on some of the features.

    Each member sees the samples in its own way: J-Play on a few random features, or features as
    they are, or standardised. Similarities of the samples to landmarks follow (a Gaussian kernel
    of one of three widths), and a second J-Play on those. In its last subspace the nearest
    training samples vote, and so does the label projection. One member is not lifted: a J-Play
    that gives every feature a curve of its own. It and the standardised ones, which are more
    cautious than the others, suit tables whose classes overlap.

    Members on trial come first, several of every kind, each of which leaves out a fifth of the
    samples. Their votes on samples that they have not seen tell how sharp each sort of vote should
    be, how much each counts (see Notes), and how far the probabilities of the whole committee can
    be trusted. The members that stay see all samples; the more the votes of a kind count, the more
    members it has. Spectra with few labels want neighbours and few features, faces want
    projections and many: nothing has to be set.

    Parameters
    ----------
    n_estimators : int, default=30
        Number of members that stay.
    n_trials : int or None, default=None
        Members on trial; ``None`` for twice as many as stay, up to 60. With 0 all sorts of
        votes count alike and probabilities are not calibrated: enough if members are of one kind.
        For multi-label targets those on trial are the committee, if there are any.
    max_features : int, float or None, default=None
        Largest number (or share) of features of a member that begins with a J-Play.
        ``None`` chooses several by the numbers of samples and features.
    views : sequence of {"supervised", "plain", "standardised", "additive", "normalised"}, \
            default=None
        What members may see first. ``None`` for the first four, or for samples divided by their
        length alone if nine of ten entries are zero, as in counts of words. There is one additive
        member at most.
    n_neighbors : int, default=3
        Training samples that vote in the last subspace, weighed by inverse distance; five times as
        many in standardised members.
    n_landmarks : int, default=400
        Training samples to which similarities are measured, at most; four times as many of
        normalised ones, and as many coordinates.
    n_coordinates : int, default=400
        Coordinates of the similarities that the second J-Play sees, or principal axes of the
        ramps that an additive member sees; half as many in members on trial.
    class_weight : None, "balanced" or dict, default=None
        Weight of each class or label in the prediction loss; of each class in votes as well.
    unlabeled : {"auto", -1, None}, default="auto"
        What marks a sample without label, see :class:`JPlay`. Such samples take part in the graph,
        the reconstruction and the constraints of the members, and may be landmarks, if labels
        of samples left out are then clearly more likely (``uses_unlabeled_`` tells).
    n_jobs : int or None, default=None
        Members that are fitted at the same time, and threads of a prediction; ``None`` means as
        many as BLAS may use threads, for a fit four at most. More than four (or -1 on a
        machine with more cores) fit in processes, which take seconds to start, once.
    random_state : int, RandomState instance or None, default=None
        Draws features, landmarks and folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    multilabel_ : bool
    members_ : list of Member
    weights_ : ndarray of shape (n_kinds, 2)
        Share of the votes of each kind of member, by neighbours and by label projection.
    held_out_proba_ : ndarray of shape (n_samples, n_outputs)
        Probabilities by members that have not seen the sample; rows of NaN if none has.
    uses_unlabeled_ : bool
        Whether samples without label take part.
    held_out_score_ : float
        Accuracy of those; for multi-label targets the share of right labels.
    feature_importances_ : ndarray of shape (n_features,)
        How much the members rely on each feature; sums to one.
    n_features_in_ : int

    See Also
    --------
    LiftedJPlay : One lifted chain on all features.
    JPlay : The linear model.

    Notes
    -----
    The weights of the votes :math:`p_j` are the coefficients of a multinomial logistic regression
    with a ridge on samples that the voters have not seen: they minimise

    .. math::

        -\sum_i \log \mathrm{softmax}(\sum_j \beta_j p_j(\cdot \mid x_i))_{y_i}
        + c J \|\beta\|^2, \qquad \beta_j \ge 0.

    A member is fitted to 4,000 samples at most, so time and memory of a fit are bounded whatever
    the number of samples; a prediction costs the same for every sample at most. ``predict`` takes
    less time than ``predict_proba``: a label is final once the votes still to come cannot change
    it. Beyond its members a prediction needs memory for the similarities of 2,048 samples at a
    time on each thread. Probabilities are computed in the precision of the samples: single
    precision is twice as fast. Labels are found in single precision, and only those that are close
    in that of the samples.

    Members are fitted and kept in host memory, wherever the samples are. Predictions run where the
    samples are; on a device (PyTorch, CuPy) ``n_jobs`` is ignored.

    Examples
    --------
    >>> from jplay import JPlayCommittee
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlayCommittee(15, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    >>> model.score(X, y) > 0.9
    True
    """

    _whitened_within = False
    """Of the first stages, see :func:`supervised_view`."""
    _parameter_constraints: dict = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "n_trials": [Interval(Integral, 0, None, closed="left"), None],
        "max_features": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
            None,
        ],
        "views": ["array-like", None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "n_landmarks": [Interval(Integral, 2, None, closed="left")],
        "n_coordinates": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "unlabeled": [StrOptions({"auto"}), Options(Integral, {-1}), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_estimators=30,
        *,
        n_trials=None,
        max_features=None,
        views=None,
        n_neighbors=3,
        n_landmarks=400,
        n_coordinates=400,
        class_weight=None,
        unlabeled="auto",
        n_jobs=None,
        random_state=None,
    ):
        self.n_estimators = n_estimators
        self.n_trials = n_trials
        self.max_features = max_features
        self.views = views
        self.n_neighbors = n_neighbors
        self.n_landmarks = n_landmarks
        self.n_coordinates = n_coordinates
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.n_jobs = n_jobs
        self.random_state = random_state

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the members and weigh their votes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels, or a 0/1 indicator matrix (dense or sparse) for multi-label targets;
            -1 for samples without label.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the prediction loss and in votes. A sample of weight zero
            counts as one without label.

        Returns
        -------
        self
        """
        X, y = validate_data(
            self, X, y, dtype=float_dtypes(X), multi_output=True, ensure_min_samples=2
        )
        targets = encode_targets(
            y,
            unlabeled=self.unlabeled,
            sample_weight=sample_weight,
            class_weight=self.class_weight,
        )
        self.classes_ = put_classes_like(targets.classes, y)
        self.multilabel_ = targets.multilabel
        # Members are fitted in host memory, wherever the samples are.
        X = host_X = to_numpy(X).astype(np.float64)
        self.scale_ = _common_scale(host_X)
        self.center_ = _center(host_X, self.scale_)
        X = self._inputs(X) + like(self.center_, X)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        training, rows = self._training(X, targets, rng)
        n_trials = self.n_trials
        if n_trials is None:
            n_trials = round(TRIALS_PER_MEMBER * self.n_estimators)
        kinds = _kinds(self.views, host_X)
        if n_trials and training.partial:
            # Labels are few: none of them may go without a judgement.
            n_trials = max(n_trials, N_FOLDS * len(kinds))
        training, trials = self._tried(training, _trial_plans(n_trials, kinds, rng), kinds)
        self.uses_unlabeled_ = training.partial
        held_out = np.full((X.shape[0], training.Y.shape[1]), np.nan)
        held_out[rows] = self.held_out_proba_
        self.held_out_proba_ = held_out
        if self.multilabel_ and trials:
            # Many cautious members rank labels better than a few of the best.
            self.members_ = [member for member, _, _ in trials]
            return self
        shares = self.weights_.sum(axis=1)
        counts = _members_by_share(shares, self.n_estimators)
        self.weights_[counts == 0] = 0
        self.weights_ /= self.weights_.sum()
        chosen = [
            Plan(kind, None, WIDTHS[(kind + turn) % len(WIDTHS)], int(rng.integers(2**63)))
            for kind in range(len(KINDS))
            for turn in range(counts[kind])
        ]
        self.members_ = [member for member, _, _ in self._fit_members(training, chosen)]
        return self

    def _training(self, X, targets, rng):
        """Samples, those with a label first, and which of the given ones those are."""
        weight = targets.weight
        labelled = targets.labeled if weight is None else targets.labeled & (weight > 0)
        rows = np.flatnonzero(labelled)
        if len(rows) < len(labelled):
            X = rows_of(X, np.concatenate([rows, np.flatnonzero(~labelled)]))
        if weight is not None:
            weight = weight[rows] / weight[rows].mean()
            weight = None if np.allclose(weight, 1, rtol=1e-12) else weight
        Y = (targets.encode()[0][rows] > 0).astype(np.float64)
        # Labels that occur together have no classes to spread over the folds evenly.
        codes = rng.integers(N_FOLDS, size=len(Y)) if self.multilabel_ else Y.argmax(axis=1)
        folds = class_folds(codes, N_FOLDS, rng)
        class_weight = self.class_weight if self.multilabel_ else None
        return Training(X, Y, folds, weight, self.multilabel_, class_weight), rows

    def _tried(self, training, plans, kinds):
        """Members on trial, and the samples: those without label too if they help clearly."""
        known = training.labelled_only()
        trials = self._fit_members(known, plans)
        loss = self._weigh(trials, known, kinds)
        if training.partial:
            helped = self._fit_members(training, plans)
            if self._weigh(helped, training, kinds) < CLEAR_GAIN * loss:
                return training, helped
            self._weigh(trials, known, kinds)
        return known, trials

    def _fit_members(self, training, plans):
        """A member of every plan, which samples it has not seen, and its votes on those."""
        if self.n_jobs is None:
            n_jobs = min(_MAX_THREADS, available_threads())
        else:
            n_jobs = effective_n_jobs(self.n_jobs)
        prefer = "threads" if n_jobs <= _MAX_THREADS else "processes"
        with threadpool_limits(1, "blas"):
            return Parallel(n_jobs=n_jobs, prefer=prefer)(
                delayed(self._fit_member)(training, plan) for plan in plans
            )

    def _fit_member(self, training, plan):
        draft = self._draft(training, plan)
        if draft.sort == "additive":
            return self._additive_member(training, draft)
        view = self._view(draft)
        if view is None:
            view = supervised_view(draft.inputs, draft.features, within=self._whitened_within)
        return self._member(training, draft, *lifted_chain(self._lift(draft, view)))

    def _additive_member(self, training, draft):
        found = additive_chain(
            draft.inputs,
            draft.known,
            draft.features,
            self._n_coordinates(draft),
            multilabel=self.multilabel_,
        )
        return self._member(training, draft, *found)

    def _draft(self, training, plan):
        rng, Y = np.random.default_rng(plan.seed), training.Y
        on_trial = plan.fold is not None
        unseen = np.flatnonzero(training.folds == plan.fold) if on_trial else training.folds[:0]
        seen = np.setdiff1d(np.arange(len(Y)), unseen)
        if not _can_learn(Y[seen], self.multilabel_):
            seen, unseen = np.arange(len(Y)), unseen[:0]
        # With several labels those on trial are the committee.
        limit = MAX_TRIAL_SAMPLES if on_trial and not self.multilabel_ else MAX_SAMPLES
        seen = _at_most(limit, seen, rng)
        # The same for all members, so that the votes of all can be compared.
        unseen = _at_most(limit, unseen, np.random.default_rng(plan.fold))
        inside = training.subset(seen, limit, rng)
        present = np.arange(Y.shape[1])
        if not self.multilabel_:
            present = np.flatnonzero(inside.Y.any(axis=0))
        features = self._features(plan, len(seen), training.X.shape[1], rng)
        codes = np.full(inside.X.shape[0], len(present))
        codes[: len(seen)] = inside.Y[:, present].argmax(axis=1)
        landmarks = landmark_indices(codes, _size_factor(plan) * self.n_landmarks, rng)
        return Draft(plan, inside, unseen, present, features, landmarks)

    def _features(self, plan, n_samples, n_features, rng):
        """Which features a member sees; ``None`` for all."""
        sort, size = KINDS[plan.kind]
        limit = n_features
        if sort == "supervised":
            size, limit = supervised_subset_sizes(n_samples, n_features)[size], self.max_features
        elif sort == "additive":
            size, limit = max(1, MAX_RAMPED // n_samples), self.max_features
        else:
            size = max(min(6, n_features), int(size * n_features))
        if limit is not None:
            limit = limit if isinstance(limit, Integral) else int(limit * n_features)
            size = min(size, max(1, limit))
        if size >= n_features:
            return None
        return np.sort(rng.choice(n_features, size, replace=False))

    def _view(self, draft):
        """What a member sees first, if no J-Play has to find it; else ``None``."""
        if draft.sort == "supervised":
            return None
        if draft.sort == "standardised":
            known = draft.inside.X[: len(draft.inside.Y), :]
            Y = None if self.multilabel_ else draft.known
            return standardised_view(known, Y, draft.features)
        return View(draft.features, None, normalised=draft.sort == "normalised")

    def _lift(self, draft, view):
        width = draft.plan.width * (CAUTIOUS_WIDTH if draft.cautious else 1)
        return Lift(
            draft.inputs,
            draft.known,
            [with_landmarks(view, draft.inside.X, draft.landmarks, [width])],
            draft.landmarks,
            CAUTIOUS if draft.cautious else SECOND,
            len(draft.present) + EXTRA_COMPONENTS,
            self._n_coordinates(draft),
        )

    def _n_coordinates(self, draft):
        n_coordinates = _size_factor(draft.plan) * self.n_coordinates
        return n_coordinates if draft.plan.fold is None else max(1, n_coordinates // 2)

    def _member(self, training, draft, chain, features):
        """The member with a fitted chain, which samples it has not seen, and its votes on those."""
        inside = draft.inside
        chain = chain.with_outputs(draft.present, training.Y.shape[1])
        neighbors = features[: len(inside.Y), :]
        n_neighbors = self.n_neighbors * (CAUTIOUS_NEIGHBORS if draft.cautious else 1)
        member = Member(draft.plan.kind, chain, neighbors, inside.Y, n_neighbors, inside.weight)
        votes = member.votes(rows_of(training.X, draft.unseen), (True, True))
        votes = [to_numpy(vote) for vote in votes]
        return _in_single_precision(member, self.center_), draft.unseen, votes

    def _weigh(self, trials, training, kinds):
        """Sharpness and weight of every sort of vote, from votes on samples not seen.

        Returns the logarithmic loss on those, infinite if there are none.
        """
        Y, weight, loss = training.Y, training.weight, np.inf
        voters = [(kind, vote) for kind in kinds for vote in range(len(VOTES))]
        sums = {voter: np.zeros(Y.shape) for voter in voters}
        counts = {voter: np.zeros(len(Y)) for voter in voters}
        self.sharpness_ = np.ones((len(KINDS), len(VOTES)))
        for kind, vote in voters:
            own = [
                (rows, votes[vote])
                for member, rows, votes in trials
                if member.kind == kind and len(rows)
            ]
            sharpness = _best_sharpness(own, Y, vote, weight, self.multilabel_)
            self.sharpness_[kind, vote] = sharpness
            for rows, votes in own:
                sums[kind, vote][rows] += _sharp(votes, sharpness, vote, self.multilabel_)
                counts[kind, vote][rows] += 1
        judged = np.flatnonzero(np.all([counts[voter] > 0 for voter in voters], axis=0))
        weights = np.full(len(voters), 1 / len(voters))
        self.exponent_, self.offset_ = 1.0, 0.0
        self.held_out_proba_ = np.full(Y.shape, np.nan)
        if len(judged):
            votes = np.stack([sums[v][judged] / counts[v][judged, None] for v in voters])
            own_weight = None if weight is None else weight[judged]
            weights = _weights(votes, Y[judged], own_weight, self.multilabel_)
            mixed = np.tensordot(weights, votes, axes=1)
            if self.multilabel_:
                self.exponent_, self.offset_ = odds_calibration(mixed, Y[judged])
            else:
                labels = Y[judged].argmax(axis=1)
                self.exponent_ = sharpening_exponent(mixed, labels, sample_weight=own_weight)
            self.held_out_proba_[judged] = mixed = self._calibrated(mixed)
            loss = -np.mean(np.log(_likelihoods(mixed, Y[judged], self.multilabel_) + LEAST_VOTE))
        weights = np.where(weights < LEAST_WEIGHT, 0, weights)
        self.weights_ = np.zeros((len(KINDS), len(VOTES)))
        self.weights_[kinds] = np.reshape(weights / weights.sum(), (len(kinds), len(VOTES)))
        self.held_out_score_ = float("nan")
        if len(judged):
            found, truth = self.held_out_proba_[judged], Y[judged]
            right = (found > 0.5) == (truth > 0.5) if self.multilabel_ else _same(found, truth)
            self.held_out_score_ = float(np.mean(right))
        return loss

    def _calibrated(self, votes):
        """Probabilities from sums of votes."""
        if self.multilabel_:
            return shifted_odds(votes, self.exponent_, self.offset_)
        return sharpened(votes, self.exponent_)

    @by_rows
    def predict_proba(self, X):
        """Probability of every class, or of every label for multi-label targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_outputs)
        """
        return self._by_blocks(X, self._probabilities)

    def _by_blocks(self, X, function):
        """``function`` of some samples at a time, over threads."""
        check_is_fitted(self, "members_")
        X = validate_data(self, X, dtype=float_dtypes(X), reset=False)
        ballots = self._ballots()
        if not is_numpy(X):
            starts = range(0, max(1, X.shape[0]), _DEVICE_ROWS)
            return namespace(X).concat(
                [self._probabilities(X[i : i + _DEVICE_ROWS, :], ballots) for i in starts]
            )
        probabilities = np.empty((len(X), len(self.classes_)), dtype=X.dtype)

        def on_rows(start):
            rows = slice(start, start + _ROWS_AT_ONCE)
            # With columns in one piece, of which members take some.
            probabilities[rows] = function(np.asfortranarray(X[rows]), ballots)

        starts = range(0, len(X), _ROWS_AT_ONCE)
        work = len(X) * sum(member.cost for member, _ in ballots)
        n_threads = None if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        with sample_threads(work, n_threads) as pool:
            list(map(on_rows, starts) if pool is None else pool.map(on_rows, starts))
        return probabilities

    def _ballots(self):
        """Members that count, and shares of their sorts of vote; most share for its cost first."""
        counts = np.bincount([member.kind for member in self.members_], minlength=len(KINDS))
        ballots = [
            (member, self.weights_[member.kind] / counts[member.kind]) for member in self.members_
        ]
        ballots = [(member, shares) for member, shares in ballots if shares.any()]
        return sorted(ballots, key=lambda ballot: -ballot[1].sum() / ballot[0].cost)

    def _probabilities(self, X, ballots):
        """Probabilities of a few samples, in their own precision."""
        X = self._inputs(X)
        return self._calibrated(sum(self._votes(X, *ballot) for ballot in ballots))

    def _leading(self, X, ballots):
        """Sums of votes of a few samples until no further vote can change their labels.

        In single precision, which takes half of the time. Labels that are close are decided in
        the precision of the samples.
        """
        X = self._inputs(X)
        if X.dtype == np.float32:
            return self._sums(X, ballots)[0]
        sums, close = self._sums(X.astype(np.float32), ballots, _CLOSE)
        sums[close] = self._sums(X[close], ballots)[0]
        return sums

    def _sums(self, X, ballots, margin=0.0):
        """Sums of votes until labels lead by a margin, and the samples whose labels never do."""
        sums = np.zeros((len(X), len(self.classes_)), dtype=X.dtype)
        undecided, total, left = np.arange(len(X)), sums, 1.0
        for number, (member, shares) in enumerate(ballots, 1):
            total = total + self._votes(X, member, shares)
            left -= shares.sum()
            if number % _MEMBERS_BETWEEN and number < len(ballots):
                continue
            sums[undecided] = total
            kept = ~decided(total, left + margin)
            if kept.sum() < _KEPT_SHARE * len(kept) or number == len(ballots):
                undecided, total = undecided[kept], total[kept]
                X = np.compress(kept, X.T, axis=1).T
        return sums, undecided

    def _inputs(self, X):
        """Samples as members see them: without unit, and seen from the mean.

        They are rounded to single precision. Samples in another unit, which round otherwise, then
        become the same numbers, and not only nearly so.
        """
        xp = namespace(X)
        seen = X * like(self.scale_, X) - like(self.center_, X)
        return xp.astype(xp.astype(seen, xp.float32), X.dtype)

    def _votes(self, X, member, shares):
        """What a member adds to the probabilities of samples."""
        total = 0
        for vote, outputs in enumerate(member.votes(X, shares > 0)):
            if outputs is not None:
                sharpness = float(self.sharpness_[member.kind, vote])
                votes = _sharp(outputs, sharpness, vote, self.multilabel_)
                total = total + float(shares[vote]) * votes
        return total

    def _outputs(self, X):
        """What tells the labels: sums of votes, or probabilities of labels by themselves."""
        check_is_fitted(self, "members_")
        return self._by_blocks(X, self._probabilities if self.multilabel_ else self._leading)

    @property
    def feature_importances_(self):
        """How much the members rely on each feature; sums to one."""
        check_is_fitted(self, "members_")
        total = np.zeros(self.n_features_in_)
        for member in self.members_:
            total += self.weights_[member.kind].sum() * member.chain.reliance(len(total))
        return total / total.sum()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags


def _common_scale(X):
    """What each feature is multiplied by, so that samples have a norm near one.

    Features of one unit keep their proportions, since large bands of a spectrum say more than
    small ones; features of different units are first divided by their largest magnitude.
    """
    largest = np.abs(X).max(axis=0)
    positive = largest[largest > 0]
    if not positive.size:
        return np.ones(X.shape[1])
    low, high = np.quantile(positive, [0.1, 0.9])
    scale = np.full(X.shape[1], 1 / positive.max())
    if high > UNITS_APART * low:
        scale = 1 / np.where(largest > 0, largest, 1.0)
    norm = np.sqrt(np.mean(np.sum((X * scale) ** 2, axis=1))) or 1.0
    return scale / norm


def _center(X, scale):
    """Mean of the scaled samples, in single precision: it is the same in every unit."""
    return (X * scale).mean(axis=0).astype(np.float32).astype(np.float64)


def _kinds(views, X):
    """Kinds of members that see what they may, or what suits the samples."""
    known = {sort for sort, _ in KINDS}
    if views is None:
        wanted = {"normalised"} if np.mean(X == 0) > SPARSE_SHARE else known - {"normalised"}
    else:
        wanted = set(views)
    if not wanted or not wanted <= known:
        raise ValueError(
            f"`views` should name some of {', '.join(sorted(known))}, got {views!r}. None chooses."
        )
    return [kind for kind, (sort, _) in enumerate(KINDS) if sort in wanted]


def _trial_plans(n_trials, kinds, rng):
    """Members that leave a fold out each: one of every kind for each fold, then a second.

    Of kinds that differ from member to member two tell more than one: many are to vote together
    in the end, and what they gain by that does not show in one.
    """
    turns = [
        (kind, fold, turn)
        for turn in range(2)
        for fold in range(N_FOLDS)
        for kind in kinds
        if not (turn and SEES_ALL[kind])
    ]
    return [
        Plan(kind, fold, WIDTHS[(kind + fold + 2 * turn) % len(WIDTHS)], int(rng.integers(2**63)))
        for kind, fold, turn in turns[: max(len(kinds), n_trials) if n_trials else 0]
    ]


def _members_by_share(shares, n_members):
    """Numbers of members of every kind, in proportion to shares of the votes (Sainte-Lague).

    A kind that sees all features gets one member for every width before others get none.
    """
    counts = np.zeros(len(shares), dtype=int)
    for _ in range(n_members):
        enough = np.array(SEES_ALL) & (counts >= len(WIDTHS))
        claims = shares / (counts + 0.5) * np.where(enough, 1e-3, 1.0)
        claims[counts >= MOST_MEMBERS] = 0
        if claims.any():
            counts[np.argmax(claims)] += 1
    return counts


def _size_factor(plan):
    """How many times as many landmarks and coordinates a member has."""
    return MORE_LANDMARKS if KINDS[plan.kind][0] == "normalised" else 1


def _can_learn(Y, multilabel):
    """Whether samples with these targets are enough for a member."""
    return len(Y) >= 4 and (multilabel or np.count_nonzero(Y.any(axis=0)) > 1)


def _at_most(limit, rows, rng):
    """The rows, or as many of them as a member can take."""
    if len(rows) <= limit:
        return rows
    return np.sort(rng.choice(rows, limit, replace=False))


def _in_single_precision(member, center):
    """The member with arrays of half the size; its votes need no more."""
    return replace(
        member,
        chain=member.chain.seen_from(center),
        neighbors=round_to_single(member.neighbors),
        indicators=round_to_single(member.indicators),
        weight=None if member.weight is None else round_to_single(member.weight),
    )


def _sharp(outputs, sharpness, vote, multilabel):
    """Probabilities from the votes of one sort."""
    xp = namespace(outputs)
    if VOTES[vote] == "neighbors":
        if multilabel:
            return outputs
        powers = (outputs + LEAST_NEIGHBOR_VOTE) ** sharpness
        return powers / xp.sum(powers, axis=1)[:, None]
    if multilabel:
        return logistic(outputs, sharpness)
    return softmax(outputs, sharpness)


def _best_sharpness(own, Y, vote, weight, multilabel):
    """The sharpness that makes the labels of samples not seen most likely."""
    choices = SHARPNESS[VOTES[vote]]
    if not own:
        return choices[len(choices) // 2]

    def loss(sharpness):
        total = 0.0
        for rows, votes in own:
            found = _sharp(votes, sharpness, vote, multilabel)
            logarithms = np.log(_likelihoods(found, Y[rows], multilabel) + 1e-3)
            total -= logarithms.sum() if weight is None else (weight[rows] @ logarithms).sum()
        return total

    return min(choices, key=loss)


def _likelihoods(probabilities, Y, multilabel):
    """Probability of what is true: of the class of each sample, or of each label's state."""
    if multilabel:
        return np.where(Y > 0.5, probabilities, 1 - probabilities)
    return (probabilities * Y).sum(axis=1)


def _weights(votes, Y, weight, multilabel):
    if not multilabel:
        return margin_weights(votes, Y.argmax(axis=1), sample_weight=weight)
    # Each label of each sample is a case with two outcomes, and no sample counts for more.
    present = votes.reshape(len(votes), -1)
    cases = np.stack([1 - present, present], axis=2)
    return vote_weights(cases, (Y.ravel() > 0.5).astype(np.int64))


def _same(probabilities, Y):
    return probabilities.argmax(axis=1) == Y.argmax(axis=1)
