"""What the linear classifiers share: labels of any kind as codes, class weights, and predictions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

import leeward as lw
from leeward.sklearn._linear import Array, LinearFit
from leeward.sklearn._names import loss_name, loss_of

__all__ = ["LinearClassifier", "class_factors", "is_logistic", "plain_labels"]


def is_logistic(estimator: LinearClassifier) -> bool:
    """predict_proba exists for the losses that are log-likelihoods."""
    name = loss_name(estimator.loss)
    if name in ("logistic", "softmax"):
        return True
    raise AttributeError(f"predict_proba needs loss='logistic'; loss={name!r} does not estimate probabilities")


class LinearClassifier(ClassifierMixin, LinearFit):  # type: ignore[misc]
    """Linear classifiers: two classes by a margin loss, more by the softmax."""

    classes_: NDArray[Any]

    def _take(self, w: Array) -> Self:
        classes = self.classes_
        outputs = 1 if len(classes) == 2 else len(classes)
        size = outputs * self.n_features_in_
        self.coef_ = w[:size].reshape(outputs, self.n_features_in_).copy()
        self.intercept_ = w[size:].copy() if self.fit_intercept else np.zeros(outputs)
        if outputs > 1:  # a constant added to all intercepts changes nothing: make their sum 0
            self.intercept_ -= self.intercept_.mean()
        return self

    def _checked_labels(self, y: Any) -> NDArray[Any]:
        check_classification_targets(y)
        return np.asarray(column_or_1d(y))

    def _weigh_classes(self, y: NDArray[Any], weight: Array | None) -> tuple[Array | None, NDArray[Any]]:
        """Sample weights with the class weights in them, and the classes that have some weight."""
        classes, codes = np.unique(y, return_inverse=True)
        if self.class_weight is not None:
            factor = class_factors(self.class_weight, classes, np.bincount(codes, weight).astype(np.float64))
            weight = (1.0 if weight is None else weight) * factor[codes]
        if weight is not None:
            classes = classes[np.bincount(codes, weight) > 0]
        self._check_classes(classes, weight is not None)
        return weight, classes

    def _check_classes(self, classes: NDArray[Any], weighted: bool) -> None:
        if len(classes) < 2:
            left = "no class remains" if not len(classes) else f"only one class remains: {classes[:1].tolist()[0]!r}"
            why = " among the samples of positive weight (sample_weight, class_weight)" if weighted else ""
            raise ValueError(f"{type(self).__name__} needs samples of at least two classes, {left}{why}")

    def _codes(self, y: NDArray[Any]) -> NDArray[np.int64]:
        # Labels outside classes_ only occur with weight 0 in fit, where any code will do.
        codes = np.searchsorted(self.classes_, y)
        return np.minimum(codes, len(self.classes_) - 1).astype(np.int64)

    def _target(self, y: Any) -> NDArray[np.int64]:
        labels = column_or_1d(np.asarray(plain_labels(y)), warn=True)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            first = int(np.argmax(unknown))
            raise ValueError(
                f"y must hold labels among classes_ {self.classes_.tolist()}, got {labels[first]!r} at position {first}"
            )
        return self._codes(labels)

    def _loss(self) -> Any:
        loss = loss_of(self.loss, self._supported, type(self).__name__)
        name = loss_name(loss)
        many = len(self.classes_) > 2
        if many and name not in ("logistic", "softmax"):
            raise ValueError(
                f"loss={name!r} with {len(self.classes_)} classes is not supported; use loss='logistic', or "
                f"sklearn.multiclass.OneVsRestClassifier({type(self).__name__}(loss={name!r}))"
            )
        if name in ("logistic", "softmax"):
            return lw.losses.Softmax(len(self.classes_)) if many else "logistic"
        return loss

    def _model(self, X: Any, target: Any, sample_weight: Array | None, *, l2: float) -> Any:
        if loss_name(self.loss) == "squared":
            target = 2.0 * target - 1.0
        return super()._model(X, target, sample_weight, l2=l2)

    def decision_function(self, X: Any) -> Array:
        """Scores of the samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n,) or (n, C)
            For two classes the score of ``classes_[1]``, which is predicted where it is above 0.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Class labels of the samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n,)
            Entries of `classes_`. A score of exactly 0 gives ``classes_[0]``; among equal scores the first class wins.
        """
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes_[best])

    @available_if(is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, by the logistic or softmax function of the scores.

        They are the model's own: a robust risk weighs hard samples up, so that they can be less confident than the
        frequencies in the training data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.

        Returns
        -------
        probabilities : ndarray of shape (n, C)
            Rows sum to 1.
        """
        scores = self.decision_function(X)
        return np.stack([expit(-scores), expit(scores)], axis=1) if scores.ndim == 1 else softmax(scores, axis=1)

    @available_if(is_logistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities, without the detour over small probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Samples.

        Returns
        -------
        log_probabilities : ndarray of shape (n, C)
            Logarithms of `predict_proba`.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([log_expit(-scores), log_expit(scores)], axis=1)
        return log_softmax(scores, axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags


def class_factors(class_weight: Any, classes: NDArray[Any], total: Array) -> Array:
    """The factor of each class, given the total weight of its samples."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        present, factor = total > 0, np.zeros(len(classes))
        factor[present] = total.sum() / (present.sum() * total[present])
        return factor
    return np.array(compute_class_weight(class_weight, classes=classes, y=classes), dtype=np.float64)


def plain_labels(y: Any) -> Any:
    """Labels of a pandas extension type (nullable integer, boolean, category, string) as an ordinary array."""
    dtype = getattr(y, "dtype", None)
    if dtype is None or isinstance(dtype, np.dtype) or not hasattr(y, "to_numpy"):
        return y
    if y.isna().any():
        raise ValueError(f"y must have no missing labels, found one at position {int(np.argmax(y.isna().to_numpy()))}")
    array = y.to_numpy()
    return np.array(array.tolist()) if array.dtype == object else array
