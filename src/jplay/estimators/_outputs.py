"""What the classifiers share that give one output per class or label."""

from typing import Any

from sklearn.base import ClassifierMixin

from jplay._array_api import is_numpy, namespace, to_numpy
from jplay._rowwise import by_rows
from jplay.numerics.votes import logistic, softmax


class OutputClassifier(ClassifierMixin):
    """Mixin of classifiers with outputs of shape (n_samples, n_outputs), given by ``_outputs``.

    The class with the largest output is predicted, or every label with an output above one half.
    """

    @by_rows
    def predict(self, X: Any) -> Any:
        """Class labels, or an indicator matrix for multi-label targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_labels)
        """
        outputs = self._outputs(X)
        xp = namespace(outputs)
        if self.multilabel_:
            return xp.astype(outputs > 0.5, xp.int64)
        chosen = xp.argmax(outputs, axis=1)
        if is_numpy(self.classes_) or is_numpy(chosen):
            return to_numpy(self.classes_)[to_numpy(chosen)]
        return namespace(self.classes_).take(self.classes_, chosen)

    @by_rows
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_outputs)
        """
        probabilities = self.predict_proba(X)
        return namespace(probabilities).log(probabilities)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.array_api_support = True
        return tags


class ScoreClassifier(OutputClassifier):
    """The same for scores; ``_sharpness`` times a score is the logarithm of a probability."""

    @by_rows
    def decision_function(self, X: Any) -> Any:
        """Scores of every class or label; the largest (or above one half) is predicted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            For two classes the score of the second minus that of the first.
        """
        outputs = self._outputs(X)
        if self.multilabel_ or outputs.shape[1] > 2:
            return outputs
        return outputs[:, 1] - outputs[:, 0]

    @by_rows
    def predict_proba(self, X: Any) -> Any:
        """Probability of every class, or of every label for multi-label targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_outputs)
            Rows sum to one unless the targets were multi-label.
        """
        outputs = self._outputs(X)
        to_probabilities = logistic if self.multilabel_ else softmax
        return to_probabilities(outputs, self._sharpness)
