"""The commands as a user runs them: each test starts a process and reads what it prints, writes and returns."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from leeward.__main__ import main

RNG = np.random.default_rng(12)
N = 160
A = RNG.normal(size=N)
B = RNG.normal(size=N)
TOWN = RNG.choice(["north", "south", "west"], size=N)
REGION = RNG.choice(["p", "q"], size=N, p=[0.9, 0.1])
SCORE = 2 * A - B + (TOWN == "west") + 0.5 * RNG.normal(size=N)


HIDE = """
import importlib.abc, sys
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
from leeward.__main__ import main
sys.exit(main())
"""


def leeward(*arguments: str, cwd: Path, hide: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command in a process, as if the packages in `hide` were not installed."""
    line = [sys.executable, "-W", "error::DeprecationWarning:leeward", "-c", HIDE.format(hidden=hide), *arguments]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=300)


@dataclass
class Run:
    """What a command run in this process returned and printed."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Runs a command in this process and in an empty folder; `pandas=False` is a machine without pandas."""

    def run(*arguments: str, pandas: bool = True) -> Run:
        monkeypatch.chdir(tmp_path)
        if not pandas:
            monkeypatch.setattr("leeward.cli._readers._pandas", lambda: None)
        status = main(list(arguments))
        return Run(status, *capsys.readouterr())

    return run


def write(path: Path, columns: dict[str, Any], delimiter: str = ",") -> Path:
    rows = [delimiter.join(columns)] + [delimiter.join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(rows) + "\n")
    return path


def people(path: Path, **more: Any) -> Path:
    columns = {"a": A, "b": B, "town": TOWN, "region": REGION, "buys": np.where(SCORE > 0, "yes", "no"), "score": SCORE}
    return write(path, columns | more)


def fails(done: Any, words: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "error:" in done.stderr
    assert words in done.stderr


def test_demo_prints_the_table_and_draws_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = leeward("demo", "--out", "picture.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for head in ("mean loss", "CVaR", "worst class", "certified gap", "seconds"):
        assert head in done.stdout
    for name in ("ERM", "CVaR", "chi-square", "KL"):
        assert name in done.stdout
    assert (tmp_path / "picture.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert done.stderr == ""


def test_demo_without_matplotlib_prints_the_table_and_says_what_is_missing(tmp_path: Path) -> None:
    done = leeward("demo", cwd=tmp_path, hide=("matplotlib",))
    assert done.returncode == 0, done.stderr
    assert "certified gap" in done.stdout
    assert 'pip install "leeward[plot]"' in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_info_says_how_it_runs(tmp_path: Path) -> None:
    done = leeward("info", cwd=tmp_path, hide=("sklearn", "matplotlib"))
    assert done.returncode == 0, done.stderr
    for word in ("leeward", "simd", "threads", "back end", "numpy", "scipy", "python"):
        assert word in done.stdout


@pytest.mark.parametrize("command", [[], ["demo"], ["fit"], ["info"]])
def test_help_explains_the_command(command: list[str], tmp_path: Path) -> None:
    done = leeward(*command, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: leeward")
    if command == ["fit"]:
        for option in ("--target", "--risk", "--alpha", "--radius", "--penalty", "--k", "--t", "--group", "--impute"):
            assert option in done.stdout


def test_fit_saves_a_model_that_predicts_from_the_same_columns(run: Any, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    import joblib

    people(tmp_path / "people.csv")
    options = ["--target", "buys", "--drop", "score", "--risk", "cvar", "--alpha", "0.3"]
    done = run("fit", "people.csv", *options, "--out", "m.joblib", "--figure", "r.png")
    assert done.returncode == 0, done.stderr
    assert "classification (2 labels)" in done.stdout
    assert "ordinary (mean)" in done.stdout
    assert "robust (cvar, alpha 0.3)" in done.stdout
    assert "worst class" in done.stdout
    assert (tmp_path / "r.png").stat().st_size > 10_000
    model = joblib.load(tmp_path / "m.joblib")
    frame = pd.read_csv(tmp_path / "people.csv").drop(columns=["buys", "score"])
    assert np.mean(model.predict(frame) == np.where(SCORE > 0, "yes", "no")) > 0.85
    assert model[-1].risk_.alpha == 0.3


@pytest.mark.parametrize("hide", [(), ("pandas",)])
def test_fit_reads_regression_with_groups_weights_and_tabs(hide: tuple[str, ...], tmp_path: Path) -> None:
    import joblib

    columns = {"a": A, "b": B, "town": TOWN, "region": REGION, "w": np.abs(A) + 0.1, "score": SCORE}
    write(tmp_path / "people.tsv", columns, "\t")
    options = ["--target", "score", "--group", "region", "--weight", "w", "--risk", "worst", "--out", "m.joblib"]
    done = leeward("fit", "people.tsv", *options, cwd=tmp_path, hide=hide)
    assert done.returncode == 0, done.stderr
    assert "regression" in done.stdout
    assert "worst group" in done.stdout
    assert "3 columns (2 of numbers, 1 of categories)" in done.stdout
    rows: Any = np.array([A, B, TOWN], dtype=object).T
    if not hide:
        pd = pytest.importorskip("pandas")
        rows = pd.DataFrame({"a": A, "b": B, "town": TOWN})
    assert np.corrcoef(joblib.load(tmp_path / "m.joblib").predict(rows), SCORE)[0, 1] > 0.9


def test_fit_reads_libsvm_and_parquet(run: Any, tmp_path: Path) -> None:
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(np.column_stack([A, B]), (SCORE > 0).astype(int), str(tmp_path / "data.libsvm"))
    done = run("fit", "data.libsvm", "--risk", "chi_square", "--radius", "0.5", "--test", "0")
    assert done.returncode == 0, done.stderr
    assert "the training rows" in done.stdout
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": A, "town": pd.Categorical(TOWN), "y": SCORE}).to_parquet(tmp_path / "data.parquet")
    done = run("fit", "data.parquet", "--target", "y", "--loss", "huber", "--delta", "0.5", "--risk", "kl")
    assert done.returncode == 0, done.stderr


RISKS = {
    "mean": [],
    "worst": [],
    "cvar": ["--alpha", "0.2"],
    "chi_square": ["--penalty", "0.5"],
    "kl": ["--penalty", "0.5"],
    "kl_cvar": ["--alpha", "0.3", "--penalty", "0.2"],
    "smoothed_cvar": ["--alpha", "0.3", "--penalty", "0.2"],
    "cressie_read": ["--k", "1.5", "--radius", "0.3"],
    "total_variation": ["--radius", "0.2"],
    "tilted": ["--t", "0.5"],
    "superquantile": ["--alpha", "0.4"],
    "extremile": ["--draws", "3"],
    "exponential": ["--rate", "2"],
}


@pytest.mark.parametrize("risk", RISKS)
def test_every_risk_is_reached_with_its_parameters(risk: str, run: Any, tmp_path: Path) -> None:
    people(tmp_path / "people.csv")
    done = run("fit", "people.csv", "--target", "buys", "--drop", "score", "--risk", risk, *RISKS[risk])
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stdout.splitlines() if line.startswith("note:")]
    assert all("all but constant" in note for note in notes), notes  # the worst case of this table calls for that


def test_a_risk_too_severe_for_the_table_is_said_to_give_a_constant_model(run: Any, tmp_path: Path) -> None:
    noise = np.where(RNG.normal(size=N) > 0, "yes", "no")
    write(tmp_path / "noise.csv", {"a": A, "b": B, "buys": noise})
    done = run("fit", "noise.csv", "--target", "buys", "--risk", "cvar", "--alpha", "0.05")
    assert done.returncode == 0, done.stderr
    assert "note: the robust (cvar, alpha 0.05) model is all but constant" in done.stdout
    assert "a larger alpha" in done.stdout


@pytest.mark.parametrize("pandas", [True, False])
def test_missing_values_name_the_column_unless_they_are_filled(pandas: bool, run: Any, tmp_path: Path) -> None:
    gaps = [*A[:-2], "", ""]
    towns = [*TOWN[:-1], ""]
    people(tmp_path / "people.csv", a=gaps, town=towns)
    options = ("fit", "people.csv", "--target", "score", "--drop", "buys")
    fails(run(*options, pandas=pandas), "column 'a' has 2 missing values (and 1 more columns have some)")
    done = run(*options, "--impute", pandas=pandas)
    assert done.returncode == 0, done.stderr
    assert "filled: 3 missing values in 2 columns" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.csv", "--target", "buys"], "there is no file 'none.csv'"),
        (["people.csv"], "--target COLUMN is needed"),
        (["people.csv", "--target", "sells"], "there is no column 'sells'; the columns are a, b, town"),
        (["people.csv", "--target", "buys", "--risk", "cvar", "--alpha", "1.5"], "alpha must be in (0, 1], got 1.5"),
        (["people.csv", "--target", "buys", "--risk", "cvar", "--radius", "1"], "CVaR has no parameter 'radius'"),
        (["people.csv", "--target", "buys", "--risk", "cvarr"], "risk must be"),
        (
            ["people.csv", "--target", "buys", "--loss", "poisson"],
            "loss='poisson' is not supported by RobustClassifier",
        ),
        (["people.csv", "--target", "town", "--loss", "hinge"], "loss='hinge' with 3 classes is not supported"),
        (["people.csv", "--target", "town", "--task", "regression"], "regression needs numbers in column 'town'"),
        (["people.csv", "--target", "buys", "--test", "1.5"], "--test must be in [0, 1), got 1.5"),
        (["people.csv", "--target", "buys", "--out", "no/where.joblib"], "there is no folder 'no'"),
        (["people.csv", "--target", "buys", "--group", "buys"], "must be different columns"),
        (["people.csv", "--target", "buys", "--delta", "1", "--loss", "hinge"], "--delta belongs to --loss huber"),
        (["names.csv", "--target", "y"], "column 'name' has 400 different texts in 400 rows"),
        (["broken.csv", "--target", "y"], "broken.csv"),
        (["people.csv", "--format", "libsvm"], "not a LIBSVM file"),
        (["people.doc", "--target", "y"], "cannot tell the format"),
    ],
)
@pytest.mark.parametrize("pandas", [True, False])
def test_an_error_is_one_line_and_status_2(
    arguments: list[str], words: str, pandas: bool, run: Any, tmp_path: Path
) -> None:
    people(tmp_path / "people.csv")
    write(tmp_path / "names.csv", {"name": [f"person {i}" for i in range(400)], "y": np.arange(400)})
    (tmp_path / "broken.csv").write_text("a,y\n1,2\n1,2,3\n")
    (tmp_path / "people.doc").write_text("")
    fails(run("fit", *arguments, pandas=pandas), words)


def test_the_figure_without_matplotlib_is_refused_before_the_work(tmp_path: Path) -> None:
    people(tmp_path / "people.csv")
    done = leeward("fit", "people.csv", "--target", "score", "--figure", "r.png", cwd=tmp_path, hide=("matplotlib",))
    fails(done, 'pip install "leeward[plot]"')
    assert done.stdout == ""


def test_the_installed_script_and_the_module_are_the_same_command(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("leeward")
    if not script.exists():
        pytest.skip("the package is not installed in this environment")
    by_script = subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout
    by_module = subprocess.run(
        [sys.executable, "-m", "leeward", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert by_script == by_module
    assert textwrap.dedent(by_script).startswith("leeward ")


def test_bench_compares_the_estimators_of_a_risk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--risk", "cvar", "--size", "2000", "--repeats", "50"]) == 0
    printed = capsys.readouterr().out
    assert "CVaR(alpha=0.1)" in printed
    assert printed.split("to take")[0].count("Minibatch(n=") == 4
    assert printed.split("to take")[0].count("MLMC(n0=") == 2
    assert "one exact gradient" in printed
    assert "KL(penalty" not in printed


def test_bench_names_a_wrong_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--risk", "cvar", "--repeats", "2"]) == 2
    assert "repeats must be at least 10, got 2" in capsys.readouterr().err
