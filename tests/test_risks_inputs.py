"""What may be given to a risk, in which form, and what is said when it may not."""

from __future__ import annotations

import copy
import math
import multiprocessing
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leeward as lw
from reference import risk_catalogue as cat

SPECS = cat.one_of_each()
each = pytest.mark.parametrize("risk", [spec.risk for spec in SPECS], ids=repr)
LOSSES = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])


def _same(a: Any, b: Any) -> bool:
    return bool(a.value == b.value and np.array_equal(a.weights, b.weights))


# ---- refused, with the words ---------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize(("bad", "word"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_a_loss_that_is_not_finite_is_named_with_its_position(risk: lw.Risk, bad: float, word: str) -> None:
    losses = LOSSES.copy()
    losses[3] = bad
    for call in (risk, risk.solve):
        with pytest.raises(ValueError, match=rf"losses\[3\].*{word}"):
            call(losses)
        with pytest.raises(ValueError, match=rf"losses\[3\].*{word}"):
            call(losses.astype(np.float32))
        with pytest.raises(ValueError, match=rf"losses\[1, 3\].*{word}"):
            call(np.stack([LOSSES, losses, losses]))


@pytest.mark.parametrize("position", [0, 1, 15, 16, 17, 4095, 4096, 70_000, 99_999])
def test_the_first_bad_position_is_found_in_long_vectors(position: int) -> None:
    losses = np.zeros(100_000)
    losses[position:] = np.where(np.arange(100_000 - position) % 7 == 0, math.nan, 0.0)
    for risk in (lw.CVaR(0.1), lw.KL(radius=0.1), lw.Mean()):
        for threads in (1, 2):
            with pytest.raises(ValueError, match=rf"losses\[{position}\]"):
                risk(losses, threads=threads)


def test_infinity_at_a_row_of_weight_zero_is_still_refused() -> None:
    with pytest.raises(ValueError, match=r"losses\[1\]"):
        lw.CVaR(0.5)([1.0, math.inf], sample_weight=[1.0, 0.0])


@each
def test_no_losses_at_all_are_refused(risk: lw.Risk) -> None:
    for empty in ([], np.empty((0,), dtype=np.float32), np.empty((3, 0))):
        with pytest.raises(ValueError, match="losses must have at least one"):
            risk(empty)
    assert risk(np.empty((0, 3))).shape == (0,)  # no rows, each of three losses


@pytest.mark.parametrize("losses", [1.0, np.array(2.0), np.zeros((2, 2, 2))], ids=["scalar", "0-d", "3-d"])
def test_losses_are_a_vector_or_a_matrix(losses: Any) -> None:
    with pytest.raises(
        ValueError, match=rf"losses must have shape \(n,\) or \(m, n\), got.*{re.escape(str(np.shape(losses)))}"
    ):
        lw.Mean()(losses)


@pytest.mark.parametrize(
    "losses",
    [
        np.array([1 + 2j, 3]),
        np.array(["a", "b"]),
        np.array([object(), None]),
        np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"),
        {"a": 1.0},
    ],
    ids=["complex", "text", "object", "dates", "dict"],
)
def test_losses_that_are_not_real_numbers_are_a_type_error(losses: Any) -> None:
    with pytest.raises(TypeError, match="losses"):
        lw.CVaR(0.5)(losses)


def test_masked_losses_are_refused() -> None:
    with pytest.raises((TypeError, ValueError), match=r"losses.*mask"):
        lw.Mean()(np.ma.masked_array([1.0, 2.0], mask=[False, True]))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, 1, -1], r"sample_weight\[2\].*-1"),
        ([1, math.nan, 1], r"sample_weight\[1\].*nan"),
        ([math.inf, 1, 1], r"sample_weight\[0\].*inf"),
        ([0, 0, 0], r"sample_weight.*(zero|positive)"),
        ([1, 1], r"sample_weight.*3.*2|sample_weight.*2.*3"),
        ([1, 1, 1, 1], r"sample_weight.*3.*4|sample_weight.*4.*3"),
        (np.ones((3, 3, 3)), "sample_weight"),
        (1.0, "sample_weight"),
    ],
    ids=repr,
)
def test_bad_sample_weights_are_named(weights: Any, words: str) -> None:
    for risk in (lw.CVaR(0.5), lw.KL(penalty=1), lw.Worst(), lw.Mean()):
        with pytest.raises(ValueError, match=words):
            risk([1.0, 2.0, 3.0], sample_weight=weights)
        with pytest.raises(ValueError, match=words):
            risk.solve(np.ones((2, 3)), sample_weight=weights)


@pytest.mark.parametrize("weights", [["a", "b"], [1j, 1]], ids=repr)
def test_sample_weights_that_are_not_real_numbers_are_a_type_error(weights: Any) -> None:
    with pytest.raises(TypeError, match="sample_weight"):
        lw.Mean()([1.0, 2.0], sample_weight=weights)


def _parameter_cases() -> list[tuple[Any, str]]:
    cases: list[tuple[Any, str]] = []
    for bad in (0.0, -0.5, 1.5, math.nan, math.inf):
        words = re.escape(f"alpha must be in (0, 1], got {bad:.12g}")
        cases += [
            (lambda bad=bad: lw.CVaR(bad), words),
            (lambda bad=bad: lw.KLCVaR(bad, 1.0), words),
            (lambda bad=bad: lw.SmoothedCVaR(bad, 1.0), words),
            (lambda bad=bad: lw.Spectral.superquantile(bad), words),
        ]
    for bad in (0.0, -1.0, math.nan, math.inf):
        words = rf"penalty must be .*, got {bad:.12g}"
        cases += [
            (lambda bad=bad: lw.KL(penalty=bad), words),
            (lambda bad=bad: lw.ChiSquare(penalty=bad), words),
            (lambda bad=bad: lw.ChiSquare(penalty=bad, radius=1.0), words),
            (lambda bad=bad: lw.CressieRead(3.0, penalty=bad), words),
            (lambda bad=bad: lw.KLCVaR(0.5, bad), words),
            (lambda bad=bad: lw.SmoothedCVaR(0.5, bad), words),
        ]
    for bad in (-1e-9, math.nan, math.inf):
        words = rf"radius must be .*, got {bad:.12g}"
        cases += [
            (lambda bad=bad: lw.KL(radius=bad), words),
            (lambda bad=bad: lw.ChiSquare(radius=bad), words),
            (lambda bad=bad: lw.ChiSquare(penalty=1.0, radius=bad), words),
            (lambda bad=bad: lw.CressieRead(3.0, radius=bad), words),
            (lambda bad=bad: lw.TotalVariation(bad), words),
        ]
    cases.append((lambda: lw.TotalVariation(1.5), r"radius must be in \[0, 1\], got 1\.5"))
    for bad in (1.0, 0.5, -2.0, math.nan, math.inf):
        cases.append((lambda bad=bad: lw.CressieRead(bad, penalty=1.0), rf"k must be .*, got {bad:.12g}"))
    for bad in (math.nan, math.inf, -math.inf):
        cases.append((lambda bad=bad: lw.Tilted(bad), rf"t must be .*, got {bad:.12g}"))
    cases += [
        (lambda: lw.KL(), "penalty.*radius"),
        (lambda: lw.ChiSquare(), "penalty.*radius"),
        (lambda: lw.CressieRead(3.0), "penalty.*radius"),
        (lambda: lw.Spectral([0.5, 0.3, 0.2]), "must not decrease, got 0.5 before 0.3"),
        (lambda: lw.Spectral([-0.1, 0.3, 0.8]), r"weights\[0\]|negative"),
        (lambda: lw.Spectral([0.0, 0.0]), "sum|positive|zero"),
        (lambda: lw.Spectral([]), "at least 1"),
        (lambda: lw.Spectral([0.1, math.nan]), "nan|finite"),
        (lambda: lw.Spectral.extremile(0.5), r"draws must be in \[1, inf\), got 0\.5"),
        (lambda: lw.Spectral.exponential(0.0), r"rate must be in \(0, inf\), got 0"),
        (lambda: lw.ChiSquare.from_pearson(radius=-1.0), "radius must be .*, got -1"),
        (lambda: lw.ChiSquare.from_dro(eps=-1.0), "eps must be .*, got -1"),
        (lambda: lw.ChiSquare.from_deshift(shift_cost=0.0, size=10), "shift_cost must be .*, got 0"),
        (lambda: lw.ChiSquare.from_fast_dro(), "size must be finite or reg positive"),
    ]
    return cases


@pytest.mark.parametrize(("make", "words"), _parameter_cases(), ids=[words for _, words in _parameter_cases()])
def test_a_parameter_out_of_range_is_named_with_its_value(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    "make", [lambda: lw.CVaR("0.1"), lambda: lw.KL(penalty="1"), lambda: lw.Tilted(None), lambda: lw.CVaR([0.1])]
)
def test_a_parameter_that_is_no_number_is_a_type_error(make: Any) -> None:
    with pytest.raises(TypeError):
        make()


def test_bad_thread_counts_are_named() -> None:
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"threads must be an integer of at least 1, got {bad}"):
            lw.Mean()(LOSSES, threads=bad)
    for huge in (1025, 2**70):
        with pytest.raises(ValueError, match=f"threads must be at most 1024, got {huge}"):
            lw.Mean().solve(LOSSES, threads=huge)
    for wrong in (True, 2.0, "2"):
        with pytest.raises(TypeError, match="threads must be an integer"):
            lw.Mean()(LOSSES, threads=wrong)  # type: ignore[arg-type]
    assert lw.Mean()(LOSSES, threads=np.int64(2)) == lw.Mean()(LOSSES)


# ---- read as they come ---------------------------------------------------------------------------------------------


@each
def test_any_layout_and_number_type_gives_the_same_answer(risk: lw.Risk, tmp_path: Path) -> None:
    want = risk.solve(LOSSES)
    wide = np.zeros((8, 3))
    wide[:, 1] = LOSSES
    frozen = LOSSES.copy()
    frozen.flags.writeable = False
    mapped = np.memmap(tmp_path / "losses", dtype=np.float64, mode="w+", shape=8)
    mapped[:] = LOSSES
    offset = np.frombuffer(b"\0" + LOSSES.tobytes(), dtype=np.float64, offset=1)  # not aligned
    forms = {
        "list": LOSSES.tolist(),
        "tuple": tuple(LOSSES),
        "read-only": frozen,
        "column of a C matrix": wide[:, 1],
        "negative stride": LOSSES[::-1].copy()[::-1],
        "memmap": mapped,
        "unaligned": offset,
        "big-endian": LOSSES.astype(">f8"),
        "int64": LOSSES.astype(np.int64),
        "uint8": LOSSES.astype(np.uint8),
        "long double": LOSSES.astype(np.longdouble),
        "subclass": LOSSES.view(type("Sub", (np.ndarray,), {})),
    }
    for form, losses in forms.items():
        got = risk.solve(losses)
        assert _same(got, want), form
        assert got.weights.dtype == np.float64, form
        assert type(got.weights) is np.ndarray, form


@each
def test_strides_of_zero_bool_and_half_are_read(risk: lw.Risk) -> None:
    assert risk(np.broadcast_to(2.5, 7)) == pytest.approx(2.5, rel=1e-15)
    flags = np.array([True, False, True, True])
    assert risk(flags) == risk(flags.astype(float))
    half = LOSSES.astype(np.float16)
    assert risk(half) == pytest.approx(risk(LOSSES), rel=1e-12)
    assert risk.solve(half).weights.dtype in (np.float16, np.float32, np.float64)
    assert np.array_equal(half, LOSSES)


@each
def test_matrices_of_any_layout_are_read(risk: lw.Risk) -> None:
    matrix = np.random.default_rng(0).normal(size=(6, 8))
    want = risk.solve(matrix)
    for form in (np.asfortranarray(matrix), np.repeat(matrix, 2, axis=1)[:, ::2], matrix[::-1].copy()[::-1]):
        got = risk.solve(form)
        assert np.array_equal(got.value, want.value)
        assert np.array_equal(got.weights, want.weights)
    rows = risk.solve(np.broadcast_to(LOSSES, (3, 8)))
    assert np.all(rows.value == risk(LOSSES))


@each
def test_sample_weights_of_any_form_and_scale_are_normalised(risk: lw.Risk) -> None:
    base = np.array([1.0, 2, 0, 1, 3, 0, 1, 1])
    want = risk.solve(LOSSES, base)
    for form in (base.tolist(), base.astype(np.int32), base.astype(np.float32), base.astype(">f8"), base[::-1][::-1]):
        assert _same(risk.solve(LOSSES, form), want)
    for scale in (0.5, 2.0**-900, 2.0**900, 1e300, 0.9 / 9):
        got = risk.solve(LOSSES, base * scale)
        assert got.value == pytest.approx(want.value, rel=1e-13)
        assert np.abs(got.weights - want.weights).max() <= 1e-13
    assert risk(LOSSES, np.full(8, 1e308)) == pytest.approx(risk(LOSSES), rel=1e-13)
    flags = base > 0
    assert risk(LOSSES, flags) == pytest.approx(risk(LOSSES[flags]), rel=1e-13)


@each
def test_the_arguments_are_not_changed(risk: lw.Risk) -> None:
    losses, base = LOSSES.copy(), np.arange(8.0)
    risk.solve(losses, base)
    assert np.array_equal(losses, LOSSES)
    assert np.array_equal(base, np.arange(8.0))


@each
def test_weights_can_be_written_into_an_array_of_the_caller(risk: lw.Risk) -> None:
    for shape, dtype in (((8,), np.float64), ((8,), np.float32), ((3, 8), np.float64)):
        losses = np.broadcast_to(LOSSES, shape).astype(dtype)
        out = np.full(shape, -1, dtype=dtype)
        s = risk.solve(losses, out=out)
        assert s.weights is out
        assert np.array_equal(out, risk.solve(losses).weights)
    for wrong in (np.empty(7), np.empty(8, dtype=np.float32), np.empty((1, 8)), np.empty(16)[::2]):
        with pytest.raises((TypeError, ValueError), match="out"):
            risk.solve(LOSSES, out=wrong)
    frozen = np.empty(8)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match=r"out.*(read-only|writ)"):
        risk.solve(LOSSES, out=frozen)


@each
def test_values_are_python_floats_and_nothing_is_printed(risk: lw.Risk, capfd: pytest.CaptureFixture[str]) -> None:
    s = risk.solve(LOSSES)
    assert type(risk(LOSSES)) is float
    assert type(s.value) is float
    assert type(s.iterations) is int
    with pytest.raises(ValueError, match="losses"):
        risk([math.nan])
    assert capfd.readouterr() == ("", "")


# ---- values: equality, text, pickles, threads, forks ---------------------------------------------------------------


@each
def test_a_risk_is_a_value_that_survives_copies_text_and_pickles(risk: lw.Risk) -> None:
    names = {**vars(lw), "array": np.array}
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(risk, protocol=protocol))
        assert again == risk
        assert hash(again) == hash(risk)
        assert _same(again.solve(LOSSES), risk.solve(LOSSES))
    for again in (copy.copy(risk), copy.deepcopy(risk), eval(repr(risk), names)):
        assert again == risk
        assert hash(again) == hash(risk)
        assert type(again) is type(risk)
        assert _same(again.solve(LOSSES), risk.solve(LOSSES))
    with pytest.raises((AttributeError, TypeError)):
        risk.anything = 1


def test_different_risks_are_not_equal() -> None:
    risks = [spec.risk for spec in SPECS]
    assert len(set(risks)) == len(risks)
    assert lw.CVaR(0.1) != lw.CVaR(0.2)
    assert lw.KL(penalty=1.0) != lw.KL(radius=1.0)
    assert lw.ChiSquare(penalty=1.0) != lw.KL(penalty=1.0)
    assert lw.CVaR(0.1) != 0.1
    assert lw.CVaR(np.float32(0.5)) == lw.CVaR(0.5)
    assert lw.KL(penalty=2) == lw.KL(penalty=2.0)


@each
def test_a_solution_can_be_pickled_and_copied(risk: lw.Risk) -> None:
    s = risk.solve(LOSSES)
    for again in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s)):
        assert _same(again, s)
        assert again.eta == s.eta


@each
def test_two_threads_may_use_one_risk_at_once(risk: lw.Risk) -> None:
    rng = np.random.default_rng(1)
    vectors = [rng.normal(size=n) for n in (10, 5_000, 40_000)]
    wanted = [risk.solve(v, threads=1) for v in vectors]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(5):
            for i, v in enumerate(vectors):
                if not _same(risk.solve(v, threads=2), wanted[i]):
                    wrong.append(i)

    crew = [threading.Thread(target=work) for _ in range(3)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert not wrong


def _in_child(pipe: Any, risks: Any, losses: Any) -> None:
    pipe.send([(risk(losses), risk(losses, threads=2)) for risk in risks])
    pipe.close()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this platform cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_answers_with_the_same_bits_and_does_not_hang() -> None:
    losses = np.random.default_rng(2).normal(size=100_000)
    risks = [spec.risk for spec in SPECS]
    here = [(risk(losses, threads=2),) * 2 for risk in risks]  # the parent's threads are up before the fork
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(send, risks, losses))
    child.start()
    send.close()
    try:
        assert receive.poll(30), "the child hangs"
        assert receive.recv() == here
    finally:
        child.kill()
        child.join()
