"""The command line. Heavy modules are imported by the command that needs them."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from leakgrid import __version__
from leakgrid.outcomes import CacheError, Interrupted, LeakgridError

EXIT_CODES = """exit codes:
  0    everything asked for is done
  1    a file or folder cannot be read or written
  2    a mistake in a job file, a dataset or a flag; nothing was sent
  3    a lane stopped: key refused, no quota or budget left, requests invalid, server down
  4    finished, but some calls failed; they count as unknown and are asked again next time
  5    the cache folder cannot be used (disk full, not writable)
  6    the database cannot be used (locked, newer, wrong SQL)
  130  interrupted; run the same command again to go on
"""


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="leakgrid",
        description="Ask many language models many questions about privacy, and trust the table.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"leakgrid {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, told: str, run: Callable[[argparse.Namespace], int], among: Any = commands
    ) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = among.add_parser(name, help=told, description=told)
        added.set_defaults(run=run)
        added.add_argument(
            "--cache",
            type=Path,
            default=Path(os.environ.get("LEAKGRID_CACHE", "cache")),
            help="folder of everything ever answered (default: cache, or $LEAKGRID_CACHE)",
        )
        added.add_argument(
            "--database",
            type=Path,
            default=Path(os.environ.get("LEAKGRID_DATABASE", "reports/leakgrid.duckdb")),
            help="the DuckDB file that results land in (default: reports/leakgrid.duckdb)",
        )
        return added

    added = command("run", "run jobs; resume is the same command again", _run)
    added.add_argument("jobs", nargs="+", type=Path, metavar="JOB", help="job files (*.toml)")
    added.add_argument("--quiet", action="store_true", help="no progress, only the summary")
    added.add_argument("--report", action="store_true", help="render the report page afterwards")
    added.add_argument("--out", type=Path, default=Path("reports/out"), help="where pages go")

    added = command("plan", "show calls, tokens, dollars and time before anything is sent", _plan)
    added.add_argument("jobs", nargs="+", type=Path, metavar="JOB", help="job files (*.toml)")

    added = command("sql", "ask SQL of everything so far, also while a run goes on", _sql)
    added.add_argument("query", help="a query, or the name or path of a file in reports/*.sql")
    added.add_argument("--format", choices=("table", "csv", "json"), default="table")

    added = command("report", "render one page for each job (or the one named)", _report)
    added.add_argument("job", nargs="?", help="the name of a job")
    added.add_argument("--out", type=Path, default=Path("reports/out"), help="where pages go")

    told = "measure judges against labelled replies"
    judges = commands.add_parser("judges", help=told, description=told)
    inside = judges.add_subparsers(dest="judges_command", required=True, metavar="COMMAND")
    told = "sensitivity, specificity, kappa and confusion of the judges of a job"
    added = command("evaluate", told, _evaluate, inside)
    added.add_argument("job", type=Path, metavar="JOB", help="a job file (*.toml)")
    added.add_argument("--judge", metavar="NAME", help="only the judge of this name")
    added.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="labelled replies, beside their items.jsonl (default: those of datasets/muppet)",
    )

    told = "check a dataset, or convert a released one"
    data = commands.add_parser("data", help=told, description=told)
    inside = data.add_subparsers(dest="data_command", required=True, metavar="COMMAND")
    told = "statistics and oddities of a file of items or of a released folder"
    added = inside.add_parser("check", help=told, description=told)
    added.set_defaults(run=_check_data)
    added.add_argument("path", type=Path, metavar="PATH", help="a *.jsonl file, or a folder")
    told = "convert a released form into ours; every oddity is reported"
    added = inside.add_parser("import", help=told, description=told)
    added.set_defaults(run=_import_data)
    added.add_argument("form", choices=("muppet", "cimemories-labels"), help="what it is")
    added.add_argument("source", type=Path, metavar="SOURCE", help="its folder, or file of labels")
    added.add_argument("--out", type=Path, required=True, metavar="FILE", help="where it goes")
    added.add_argument("--profiles", type=Path, metavar="FILE", help="the profiles of the labels")
    told = "write the items of a job that makes them, or the labels of one, as files"
    added = command("export", told, _export_data, inside)
    added.add_argument("form", choices=("items", "labels", "released-labels"), help="what to write")
    added.add_argument("job", metavar="JOB", help="the job's name (not its file)")
    added.add_argument("--out", type=Path, required=True, metavar="FILE", help="where it goes")
    added.add_argument("--profiles", type=Path, metavar="FILE", help="the profiles of the labels")

    command("rebuild", "make the database anew from the cache", _rebuild)

    added = command("forget", "put kept answers out of use, so that they are asked again", _forget)
    added.add_argument(
        "--where", required=True, help="SQL over the response table, like \"outcome = 'invalid'\""
    )
    added.add_argument("--yes", action="store_true", help="do it; without this, only count")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors are one message on standard error."""
    arguments = parser().parse_args(argv)
    with _stopping() as stopped:
        try:
            return int(arguments.run(arguments))
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except BaseException as error:
            # DuckDB ends a query that was interrupted with an error of its own.
            if stopped or isinstance(error, KeyboardInterrupt):
                return _interrupted(arguments)
            found = _to_tell(error)
            if found is None:
                raise
            print(f"leakgrid: {found[0]}", file=sys.stderr)
            return found[1]


@contextlib.contextmanager
def _stopping() -> Iterator[list[int]]:
    """SIGTERM does the same as Ctrl-C; gives the signals that came."""
    came: list[int] = []

    def stop(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = {}
    with contextlib.suppress(ValueError):  # only the main thread hears of signals
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, stop)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupted(arguments: argparse.Namespace) -> int:
    told = "interrupted"
    if arguments.command == "run":
        told += f"; every answer so far is kept in {arguments.cache}, and the same command goes on"
    print(f"leakgrid: {told}", file=sys.stderr)
    return Interrupted.exit_code


def _to_tell(error: BaseException) -> tuple[str, int] | None:
    """What to tell of an error, and its exit code; None if it is not ours to explain."""
    if isinstance(error, LeakgridError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and error.strerror:
        told = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"{told}; make room and run the same command again", CacheError.exit_code
        return told, LeakgridError.exit_code
    if isinstance(error, BaseExceptionGroup):
        found = [_to_tell(inner) for inner in error.exceptions]
        return None if None in found else found[0]
    return None


def _run(arguments: argparse.Namespace) -> int:
    from leakgrid.jobs.command import run_job

    code = 0
    for path in arguments.jobs:
        ended = run_job(path, arguments.cache, arguments.database, quiet=arguments.quiet)
        code = code or ended.exit_code
        if ended.exit_code == 130:
            return 130
        if arguments.report:
            _page_of_run(arguments, ended.job)
    return code


def _plan(arguments: argparse.Namespace) -> int:
    from leakgrid.jobs.forecast import show_plan

    for path in arguments.jobs:
        show_plan(path, arguments.cache, sys.stdout)
    return 0


def _sql(arguments: argparse.Namespace) -> int:
    from leakgrid.store.live import resolve_query, run_sql

    query = resolve_query(arguments.query, Path("reports"))
    run_sql(arguments.cache, query, sys.stdout, arguments.format)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    _pages(arguments, arguments.job)
    return 0


def _page_of_run(arguments: argparse.Namespace, job: str) -> None:
    """The page of a job that ran, unless it has all that was landed."""
    from leakgrid.reports.files import is_current
    from leakgrid.store.landed import landed_mark

    mark = landed_mark(arguments.cache, arguments.database, job)
    if not is_current(arguments.out, job, mark):
        _pages(arguments, job)


def _pages(arguments: argparse.Namespace, job: str | None) -> None:
    from leakgrid.reports.page import render
    from leakgrid.store.landed import is_landed, land

    if not is_landed(arguments.cache, arguments.database):
        land(arguments.cache, arguments.database)
    for path in render(arguments.database, arguments.out, job):
        print(path)


def _evaluate(arguments: argparse.Namespace) -> int:
    from leakgrid.jobs.judging import evaluate
    from leakgrid.reports.judge_record import FOLDER

    return evaluate(
        arguments.job,
        arguments.cache,
        sys.stdout,
        judge=arguments.judge,
        labels=arguments.labels,
        records=arguments.database.parent / FOLDER,
    )


def _check_data(arguments: argparse.Namespace) -> int:
    from leakgrid.jobs.datacheck import check

    check(arguments.path, sys.stdout)
    return 0


def _import_data(arguments: argparse.Namespace) -> int:
    from leakgrid.jobs.datacheck import import_labels, import_muppet

    if arguments.form == "muppet":
        import_muppet(arguments.source, arguments.out, sys.stdout)
    else:
        import_labels(arguments.source, arguments.profiles, arguments.out, sys.stdout)
    return 0


def _export_data(arguments: argparse.Namespace) -> int:
    from leakgrid.jobs.dataexport import export

    export(
        arguments.form,
        arguments.job,
        arguments.cache,
        arguments.out,
        arguments.profiles,
        sys.stdout,
    )
    return 0


def _rebuild(arguments: argparse.Namespace) -> int:
    from leakgrid.store.ingest import rebuild

    done = rebuild(arguments.cache, arguments.database)
    print(", ".join(f"{count:,} {table}" for table, count in done.rows.items()))
    return 0


def _forget(arguments: argparse.Namespace) -> int:
    from leakgrid.jobs.forget import forget

    print(forget(arguments.cache, arguments.where, do=arguments.yes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
