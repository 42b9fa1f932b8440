"""Analysing the ranks of a large job on a Ray cluster: `pip install hta-engine[ray]`.

    import hta_engine.ray

    r = hta_engine.ray.analyze("/shared/job/traces", output="hta-out")

Each task maps a share of the ranks to a partial (`hta analyze --partial --share`). Partials are merged in a tree (`hta
merge --partial`), and the last ones here (`hta merge`). The results are, byte for byte, those of `hta analyze` on one
machine. Ray schedules, restarts tasks whose worker or machine is lost, and moves the partials; a partial that is lost
with a machine is made again.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import pickle
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import uuid
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

try:
    import ray as _ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise ImportError("hta_engine.ray needs Ray: pip install 'hta-engine[ray]'") from error

from . import _program
from ._analyze import Place, Traces, trace_arguments
from ._files import STORE_OPTIONS, is_url, store_options
from ._progress import Progress, ProgressOption, Shown
from ._result import PathText, Result
from ._version import __version__
from .errors import CONDITION, DONE, NOTHING, PARTLY, HtaError, WrongProgram, error_of

__all__ = ["analyze"]

#: Some of its functions have no types.
_untyped: Any = _ray

#: Tasks for each slot of the cluster, so that a slow one does not keep the others waiting for long.
_TASKS_OF_A_SLOT = 4

#: Options of `hta analyze` that concern the results, and not what the ranks leave.
_OF_THE_RESULTS = ("strict", "no_html", "fail_if", "editor", "source_root", *STORE_OPTIONS)

#: Least memory that a task is given, bytes.
_LEAST_MEMORY = 512 << 20


def analyze(
    traces: Traces,
    output: Optional[PathText] = None,
    *,
    tasks: Optional[int] = None,
    num_cpus: float = 1,
    max_retries: int = 3,
    fan_in: int = 16,
    scratch: Optional[PathText] = None,
    force: bool = False,
    progress: ProgressOption = None,
    **options: object,
) -> Result:
    """Analyses traces of the ranks of a job on a Ray cluster.

    Uses the cluster that `ray.init` has connected to; otherwise calls `ray.init()`. All machines must have this version
    of hta-engine, and must see the traces under the same names.

    Args:
        traces: files, folders, patterns or URLs.
        output: folder for the results, on this machine, or URL in a store. Without one they are in a temporary folder,
            which is removed with the result.
        tasks: number of tasks to divide the ranks into; by default four for each slot of the cluster, at most one for
            each rank.
        num_cpus: CPUs, and so threads, of each task.
        max_retries: how often a task is started again after its worker was lost.
        fan_in: how many partials are merged at once.
        scratch: a folder that all machines see, or a URL in a store, where partials are kept instead of in Ray's object
            store. They are removed at the end.
        force: write to `output` even if it holds other files.
        progress: `False` shows none; a function is called with it.
        options: any option of `hta analyze` but `only`, with `_` for `-`. Without `memory_limit`, a task may use the
            part of its machine's memory that its CPUs are of all.

    Raises:
        HtaError: nothing could be analysed, or a task was lost more than `max_retries` times.
        ConditionHolds: a condition of `fail_if` holds.

    Warns:
        PartialResults: something in the input could not be used.
    """
    _check(options, fan_in, tasks)
    given = trace_arguments(traces)
    of_results = {"force": force, **{name: options.get(name) for name in _OF_THE_RESULTS}}
    _check_results(output, of_results)
    job_bytes, job_ranks = _listed(given, options)
    if not _ray.is_initialized():
        _ray.init()
    slots = max(1, int(float(_untyped.cluster_resources().get("CPU", 1)) / num_cpus)) if num_cpus else 1
    count = tasks or max(1, min(job_ranks, slots * _TASKS_OF_A_SLOT))
    job = _Job(
        version=__version__,
        traces=given,
        options=_program.arguments_of({"threads": max(1, int(num_cpus)), **options}),
        has_memory_limit=options.get("memory_limit") is not None,
        num_cpus=num_cpus,
        folder=os.getcwd(),
        name=_new_name(),
        scratch=_scratch_of_run(scratch),
        store=_program.arguments_of(store_options(options)),
    )
    whole = Progress(job_ranks, 0, job_bytes, 0)
    try:
        with Shown(progress, "hta on Ray") as shown:
            parts = _Cluster(job, num_cpus, max_retries).partials(count, fan_in, whole, shown.update)
        return _results(job, job_ranks, parts, output, of_results)
    finally:
        _sweep(job)


@dataclass(frozen=True)
class _Job:
    """What every task is told."""

    version: str
    traces: List[str]
    options: List[str]
    has_memory_limit: bool
    num_cpus: float
    #: The current folder, to which the traces may be relative: results name the files as they were given.
    folder: str
    #: Name of the temporary folders of this run on all machines.
    name: str
    #: Folder or URL for the partials of this run.
    scratch: Optional[str]
    #: Options of the program that say how a store is reached.
    store: List[str]

    @property
    def keeps_in_store(self) -> bool:
        return self.scratch is not None and is_url(self.scratch)


def _scratch_of_run(scratch: Optional[PathText]) -> Optional[str]:
    """A place of this run alone below the one for all runs."""
    if scratch is None:
        return None
    text = os.fsdecode(scratch)
    return f"{text.rstrip('/')}/{_new_name()}" if is_url(text) else os.path.join(os.path.abspath(text), _new_name())


def _check(options: Dict[str, object], fan_in: int, tasks: Optional[int]) -> None:
    if options.get("only"):
        raise HtaError(
            "cannot use only= on a cluster: partials hold all analyses, and are merged to the results of all",
            "leave it out and read the tables that you want; no_events=True makes the work smaller",
        )
    if options.get("partial") or options.get("share"):
        raise HtaError("cannot use partial= or share= here: hta_engine.ray divides the ranks itself")
    if fan_in < 2:
        raise HtaError(f"cannot merge in a tree with fan_in={fan_in}: expected 2 or more")
    if tasks is not None and tasks < 1:
        raise HtaError(f"cannot divide the ranks into {tasks} tasks: expected 1 or more")


def _check_results(output: Optional[PathText], options: Dict[str, object]) -> None:
    """Has the program check where the results go, and how, before the long work: it merges nothing at that place."""
    with Place(output, options) as place, tempfile.TemporaryDirectory() as nothing:
        arguments = _program.arguments_of({"out": place.folder, **options})
        try:
            _program.run(["merge", *arguments, "--", nothing])
        except HtaError as error:
            # That there is nothing to merge comes last, when all else is in order.
            if f"cannot merge {nothing}: " not in error.message:
                raise


def _listed(traces: Sequence[str], options: Dict[str, object]) -> Tuple[int, int]:
    """Bytes and number of the ranks; the program reads the heads of their files."""
    chosen = {"format": "json", "ranks": options.get("ranks"), "rank": options.get("rank"), **store_options(options)}
    arguments = ["inputs", *_program.arguments_of(chosen), "--", *traces]
    run = _program.run(arguments, allowed=(DONE, PARTLY, NOTHING), wants_output=True)
    if not run.output:
        # The message is why nothing can be listed.
        raise error_of(run.lines, run.exit_code)
    files = [f for f in json.loads(run.output) if f["rank"] is not None]
    # Without a rank the program is run all the same, and says why.
    return sum(f["bytes"] for f in files), len(files)


# Time for tasks to end before they are cancelled, seconds.
_CANCEL_AFTER = 2.0


class _Cluster:
    """Submits the tasks of a job, and waits for them."""

    def __init__(self, job: _Job, num_cpus: float, max_retries: int) -> None:
        self._job = _ray.put(job)
        options = {"num_cpus": num_cpus, "max_retries": max_retries, "num_returns": 2}
        self._map: Any = _ray.remote(_map_share).options(name="hta analyze --partial", **options)
        self._merge: Any = _ray.remote(_merge_parts).options(name="hta merge --partial", **options)

    def partials(
        self, count: int, fan_in: int, whole: Progress, show: Optional[Callable[[Progress], None]]
    ) -> List[Any]:
        """References to at most `fan_in` partials that hold all ranks, from `count` shares."""
        waiting: Dict[Any, Any] = {}
        ready: List[Any] = []
        ranks_done = bytes_done = 0
        try:
            for index in range(count):
                content, progress = self._map.remote(self._job, index, count)
                waiting[progress] = content
            while waiting:
                done, _ = _ray.wait(list(waiting), num_returns=1)
                for finished in done:
                    progress = _get(finished)
                    ready.append(waiting.pop(finished))
                    ranks_done, bytes_done = ranks_done + progress.ranks_done, bytes_done + progress.bytes_done
                if show is not None:
                    show(Progress(whole.ranks, ranks_done, whole.bytes, bytes_done))
                if len(ready) >= fan_in and len(ready) + len(waiting) > fan_in:
                    # Arguments of their own: Ray starts the task when all are on its machine. A task that waits itself
                    # for a partial that is lost keeps its CPUs, which the task that makes it again may need.
                    content, progress = self._merge.remote(self._job, *ready[:fan_in])
                    waiting[progress] = content
                    del ready[:fan_in]
            return ready
        except BaseException:
            self._cancel(list(waiting))
            raise

    @staticmethod
    def _cancel(references: List[Any]) -> None:
        """Ends tasks whose results nobody wants any more."""
        # Ray aborts this process when a task ends in the moment in which it is cancelled. What makes one task fail makes
        # the others fail at about the same time, so they may first end by themselves.
        running = references
        if references:
            _, running = _ray.wait(references, num_returns=len(references), timeout=_CANCEL_AFTER)
        for reference in running:
            _ray.cancel(reference, force=True)


def _get(reference: Any) -> Any:
    """What a task returned; its error as one of this package."""
    try:
        return _ray.get(reference)
    except RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, HtaError):
            raise cause from None
        if "No module named 'hta_engine'" in str(error):
            raise HtaError(
                "cannot work on all machines of the cluster: hta-engine is not installed on one of them",
                f"pip install hta-engine=={__version__} there, or name it in the runtime_env of ray.init",
            ) from None
        raise
    except RayError as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise HtaError(
            f"cannot go on: a task, or what it left, was lost more often than max_retries allows: {first}",
            "if the memory of the machines does not suffice, give each task more CPUs (num_cpus) or a memory_limit",
        ) from error


def _results(
    job: _Job, job_ranks: int, parts: List[Any], output: Optional[PathText], options: Dict[str, object]
) -> Result:
    """Merges the last partials on this machine."""
    with Place(output, options) as place:
        beside = None
        if not is_url(place.folder):
            # Beside the results, so that files of events can be linked and need not be copied.
            beside = os.path.dirname(os.path.abspath(place.folder))
            os.makedirs(beside, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".hta-ray-", dir=beside) as workspace:
            folders = [_fetched(job, _get(part), os.path.join(workspace, str(i))) for i, part in enumerate(parts)]
            arguments = _program.arguments_of({"out": place.folder, **options})
            finished = _program.run(["merge", *arguments, "--", *folders], allowed=(DONE, PARTLY, CONDITION))
        result = place.result(finished, level=4)
    found = result.summary["rank_count"] + result.summary["refused_count"]
    if found < job_ranks:
        # Each task divides the files by their sizes, so one that grows may be in the share of no task.
        raise HtaError(
            f"the results hold {found} of {job_ranks} files: some were changed while they were read",
            "analyse again when all files are complete",
        )
    return result


# In the tasks.

#: A partial as it is passed on.
_Kept = Union[bytes, pickle.PickleBuffer]


def _map_share(job: _Job, index: int, count: int) -> Tuple[_Kept, Progress]:
    """Maps a share of the ranks."""
    last = [Progress(0, 0, 0, 0)]
    _check_version(job)
    options = job.options if job.has_memory_limit else [*job.options, f"--memory-limit={_memory(job.num_cpus)}B"]
    with _workspace(job) as folder:
        part = _place_of_partial(job, folder)
        _program.run(
            ["analyze", "--partial", f"--share={index}/{count}", f"--out={part}", *options, "--", *job.traces],
            allowed=(DONE, PARTLY),
            cwd=_folder_of_traces(job),
            on_progress=lambda progress: last.__setitem__(0, progress),
            temporary_folder=folder,
            before_start=_end_with_worker(),
        )
        return _kept(job, part), last[0]


def _merge_parts(job: _Job, *parts: _Kept) -> Tuple[_Kept, Progress]:
    """Merges some partials to one."""
    _check_version(job)
    with _workspace(job) as folder:
        folders = [_fetched(job, part, os.path.join(folder, str(i))) for i, part in enumerate(parts)]
        merged = _place_of_partial(job, folder)
        threads = f"--threads={max(1, int(job.num_cpus))}"
        _program.run(
            ["merge", "--partial", threads, f"--out={merged}", *job.store, "--", *folders],
            allowed=(DONE, PARTLY),
            temporary_folder=folder,
            before_start=_end_with_worker(),
        )
        # Its ranks were counted when they were mapped.
        return _kept(job, merged), Progress(0, 0, 0, 0)


def _check_version(job: _Job) -> None:
    if job.version != __version__:
        machine = os.uname().nodename
        raise WrongProgram(
            f"cannot work on {machine}: expected hta-engine {job.version} as on the driver, found {__version__}",
            f"pip install hta-engine=={job.version} on all machines",
        )


def _folder_of_traces(job: _Job) -> Optional[str]:
    """The folder to run the program in."""
    if os.path.isdir(job.folder):
        return job.folder
    if all(os.path.isabs(trace) or "://" in trace for trace in job.traces):
        return None
    raise HtaError(
        f"cannot find the folder {job.folder} on {os.uname().nodename}, to which the traces are relative",
        "give the traces by absolute paths",
    )


def _memory(num_cpus: float) -> int:
    """The part of this machine's memory that a task of so many CPUs may use, bytes."""
    own = _ray.get_runtime_context().get_node_id()
    for node in _untyped.nodes():
        if node["NodeID"] == own:
            resources = node["Resources"]
            share = min(num_cpus / float(resources.get("CPU", 1)), 1.0) if resources.get("CPU") else 1.0
            return max(int(float(resources.get("memory", 0)) * share), _LEAST_MEMORY)
    return _LEAST_MEMORY


def _end_with_worker() -> Optional[Callable[[], None]]:
    """Ends the program with the worker that runs it: nobody waits for it any more (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    pr_set_pdeathsig = 1
    return lambda: libc.prctl(pr_set_pdeathsig, signal.SIGTERM)


def _new_name() -> str:
    return f"hta-ray-{uuid.uuid4().hex[:12]}"


def _new_folder_in(base: str) -> str:
    """A new folder in another one, which a task that ends at this moment may remove because it is empty."""
    while True:
        os.makedirs(base, mode=0o700, exist_ok=True)
        try:
            return tempfile.mkdtemp(dir=base)
        except FileNotFoundError:
            continue


@contextmanager
def _workspace(job: _Job) -> Iterator[str]:
    """A folder of one attempt of a task. That of a killed worker is removed when the run ends."""
    base = os.path.join(tempfile.gettempdir(), job.name)
    folder = _new_folder_in(base)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            os.rmdir(base)
        except OSError:
            pass  # another task of this run is at work in it


def _place_of_partial(job: _Job, workspace: str) -> str:
    """Where the program leaves a partial: in a store at once where it is kept, otherwise in the workspace."""
    if job.scratch is not None and job.keeps_in_store:
        # A new name: an earlier attempt may still be at work.
        return f"{job.scratch}/{uuid.uuid4().hex}"
    return os.path.join(workspace, "partial")


def _kept(job: _Job, part: str) -> _Kept:
    """A partial as it is passed on: its bytes, or its path in the scratch folder or store."""
    if job.keeps_in_store:
        return os.fsencode(part)
    if job.scratch is None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(part, arcname=".")
        # A buffer: the tasks that it is passed to read it in Ray's object store, and not in memory of their own.
        return pickle.PickleBuffer(packed.getvalue())
    os.makedirs(job.scratch, exist_ok=True)
    # Moved there under a new name: an earlier attempt may still be at work.
    place = os.path.join(job.scratch, uuid.uuid4().hex)
    shutil.copytree(part, place)
    return os.fsencode(place)


def _fetched(job: _Job, kept: _Kept, folder: str) -> str:
    """The folder or URL of a partial as this machine sees it."""
    if job.scratch is not None:
        return os.fsdecode(bytes(kept))
    with tarfile.open(fileobj=io.BytesIO(kept)) as archive:
        # The archive is made above; older versions of Python have no filter to ask for.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(folder)
    return folder


def _sweep(job: _Job) -> None:
    """Removes the partials, and what killed workers have left on the machines."""
    if job.scratch is not None and job.keeps_in_store:
        try:
            _program.run(["files", "--remove-partials", *job.store, "--", job.scratch])
        except HtaError as error:
            # The results are complete, or the error that is being raised says why there are none.
            warnings.warn(f"the partials in {job.scratch} stay: {error}", RuntimeWarning, stacklevel=3)
    elif job.scratch is not None:
        shutil.rmtree(job.scratch, ignore_errors=True)
    try:
        sweep: Any = _ray.remote(_sweep_here)
        nodes = [node["NodeID"] for node in _untyped.nodes() if node["Alive"]]
        swept = [
            sweep.options(
                num_cpus=0, max_retries=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
            ).remote(job.name)
            for node in nodes
        ]
        _ray.wait(swept, num_returns=len(swept), timeout=30)
    except RayError:
        pass  # a machine that is gone has nothing to clean


def _sweep_here(name: str) -> None:
    folder = os.path.join(tempfile.gettempdir(), name)
    # A program that is just being ended may still write.
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
        time.sleep(0.1)
