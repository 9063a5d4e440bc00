"""The command `leeward`: demo, fit, bench, info. Each subcommand is imported when it runs, so that `leeward info` needs NumPy alone.

An error of the user's making is one line on standard error and exit status 2. The estimators that `demo` and `fit` train are
handed in by `leeward.__main__`, where the faces meet; this one knows only what an estimator does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import leeward as lw

__all__ = ["Estimators", "main"]

Estimators = Callable[[], tuple[type, type]]  # imports and returns the classifier's and the regressor's class
Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"

_FIT_EXAMPLES = """\
examples:
  leeward fit people.csv --target income --risk cvar --alpha 0.1 --out model.joblib
  leeward fit people.csv --target income --group region --risk worst --figure report.png
  leeward fit train.libsvm --risk chi_square --radius 0.5 --no-scale
  leeward fit houses.parquet --target price --loss huber --delta 2.0 --risk kl --radius 0.3

the saved model takes the same columns: joblib.load("model.joblib").predict(frame)
"""


def main(argv: Sequence[str] | None, estimators: Estimators) -> int:
    """Run a command line.

    Parameters
    ----------
    argv : sequence of str or None
        Arguments after the program's name; ``sys.argv[1:]`` when None.
    estimators : callable
        Returns the classes of a classifier and a regressor with the interface of scikit-learn.

    Returns
    -------
    status : int
        0, or 2 after an error.
    """
    arguments = _parser().parse_args(argv)
    try:
        status = _run(arguments, estimators)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has gone (leeward demo | head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("leeward: interrupted", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError, ImportError, MemoryError, ArithmeticError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"leeward {arguments.command}: error: {text}", file=sys.stderr)
        return 2
    return status


def _run(arguments: argparse.Namespace, estimators: Estimators) -> int:
    if arguments.command == "info":
        from leeward.cli._info import info

        return info()
    if arguments.command == "bench":
        from leeward.cli._bench import bench

        return bench(arguments)
    classifier, regressor = estimators()
    if arguments.command == "demo":
        from leeward.cli._demo import demo

        return demo(arguments, classifier)
    from leeward.cli._fit import fit

    return fit(arguments, classifier, regressor)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="leeward",
        description="Train models that hold up when the data shifts, and see how far from optimal they are.",
    )
    parser.add_argument("--version", action="version", version=f"leeward {lw.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{demo,fit,bench,info}")
    _add_demo(commands)
    _add_fit(commands)
    _add_bench(commands)
    commands.add_parser(
        "info", help="version, build, SIMD level, threads", description="Version, build, SIMD level and threads."
    )
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="robust against ordinary training on real data: a table and a picture",
        description="Trains an ordinary and three robust classifiers on data that come with scikit-learn, prints how each "
        "does on held-out data and draws it. Takes a few seconds.",
    )
    demo.add_argument(
        "--out", default="leeward-demo.png", metavar="FILE.png", help="where the picture goes (default: %(default)s)"
    )
    demo.add_argument("--no-figure", action="store_true", help="print the table only; needs no matplotlib")
    demo.add_argument("--threads", type=int, metavar="N", help="threads (default: the CPUs this process may use)")


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    bench = commands.add_parser(
        "bench",
        help="bias, variance and time of gradient estimators, risk by risk, and which to take",
        description="Compares mini-batches and multi-level estimates of the gradient of every risk on a made problem: bias, "
        "variance, cost and time with 95 per cent intervals, and the one to take. Needs NumPy and SciPy alone.",
    )
    names = "mean cvar kl_cvar smoothed_cvar chi_square_penalty chi_square_radius kl_penalty kl_radius cressie_read total_variation worst"
    bench.add_argument(
        "--risk", choices=names.split(), metavar="NAME", help=f"one risk only: {', '.join(names.split())}"
    )
    bench.add_argument("--size", type=int, default=20_000, metavar="N", help="number of samples (default: %(default)s)")
    bench.add_argument(
        "--repeats", type=int, default=4000, metavar="K", help="estimates of each estimator (default: %(default)s)"
    )


def _add_fit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    fit = commands.add_parser(
        "fit",
        help="train a robust model on a table",
        description="Reads a table, trains a robust linear model beside an ordinary one, prints how both do on held-out "
        "rows, and saves the model and a figure.",
        epilog=_FIT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = fit.add_argument
    add(
        "data",
        metavar="DATA",
        help="CSV (.csv, .tsv, .gz), Parquet (.parquet) or LIBSVM (.libsvm, .svm, .svmlight) file",
    )
    add("--format", choices=["csv", "parquet", "libsvm"], help="kind of file, when its name does not say it")

    table = fit.add_argument_group("table").add_argument
    table("--target", metavar="COLUMN", help="column to predict (not for LIBSVM, where the first number is the target)")
    table(
        "--task",
        choices=["auto", "classification", "regression"],
        default="auto",
        help="kind of target (default: from its values)",
    )
    table(
        "--group",
        metavar="COLUMN",
        help="risk over the mean losses of the groups in this column, which is not a feature",
    )
    table("--weight", metavar="COLUMN", help="column of sample weights, which is not a feature")
    table("--drop", metavar="COLUMN", nargs="+", default=[], help="columns to leave out")
    table("--impute", action="store_true", help="fill missing values: the median of numbers, the commonest category")
    table("--no-scale", action="store_true", help="leave numbers as they are (default: mean 0, standard deviation 1)")
    table(
        "--test",
        type=float,
        default=0.25,
        metavar="FRACTION",
        help="share of rows held out for the report; 0 trains on all (default: %(default)s)",
    )

    risk = fit.add_argument_group("risk and loss").add_argument
    risk(
        "--risk",
        default="chi_square",
        metavar="NAME",
        help="mean, worst, cvar, chi_square, kl, kl_cvar, smoothed_cvar, cressie_read, total_variation, tilted, "
        "superquantile, extremile, exponential (default: %(default)s)",
    )
    risk(
        "--alpha",
        type=float,
        metavar="A",
        help="tail mass in (0, 1] of cvar, kl_cvar, smoothed_cvar, superquantile (default: 0.5)",
    )
    risk("--radius", type=float, metavar="R", help="radius of chi_square, kl, cressie_read, total_variation")
    risk(
        "--penalty",
        type=float,
        metavar="L",
        help="penalty, in units of the loss, of chi_square, kl, kl_cvar, smoothed_cvar, cressie_read",
    )
    risk("--k", type=float, metavar="K", help="exponent of cressie_read, above 1")
    risk("--t", type=float, metavar="T", help="tilt of tilted; below 0 plays hard samples down")
    risk("--draws", type=float, metavar="N", help="number of draws of extremile, at least 1 (default: 2)")
    risk("--rate", type=float, metavar="R", help="rate of exponential, above 0 (default: 2)")
    risk(
        "--loss",
        metavar="NAME",
        help="logistic, hinge, squared_hinge, squared; for numbers squared, huber, absolute, quantile, poisson",
    )
    risk("--delta", type=float, metavar="D", help="threshold of the huber loss")
    risk("--tau", type=float, metavar="T", help="level of the quantile loss, in (0, 1)")
    risk("--l2", type=float, default=1e-3, metavar="L", help="ridge: (L/2) |coef|^2 is added (default: %(default)s)")
    risk("--class-weight", choices=["balanced"], help="the same total weight for each class")
    risk("--no-intercept", action="store_true", help="no intercept")

    run = fit.add_argument_group("run and output").add_argument
    run("--tol", type=float, default=1e-4, metavar="T", help="certified relative gap to reach (default: %(default)s)")
    run("--max-passes", type=float, metavar="P", help="budget in passes over the data")
    run(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="seed of the split and of sampling algorithms (default: %(default)s)",
    )
    run("--threads", type=int, metavar="N", help="threads (default: the CPUs this process may use)")
    run("--out", metavar="FILE.joblib", help="save the model, preprocessing included")
    run("--figure", metavar="FILE.png", help="draw loss distributions and convergence")
