"""Analysing on a Ray cluster of two nodes: the bytes of one machine, also where workers and nodes are lost."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Set

import pytest
from conftest import ALL_SAMPLES, ROOT, SAMPLES, differing

import hta_engine
from hta_engine import HtaError, PartialResults, Progress, _program

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: pip install 'hta-engine[ray]'")

from ray.cluster_utils import Cluster  # noqa: E402

import hta_engine.ray  # noqa: E402

SHARED = Path(os.environ.get("HTA_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the workers run in the place of the program: it does what this file says, and then the program's work."""
    return tmp_path_factory.mktemp("program") / "before.sh"


@pytest.fixture(scope="module")
def cluster(script: Path) -> Iterator[Cluster]:
    program = script.with_name("hta")
    program.write_text(
        f'#!/bin/sh\nhta="{_program.find()}"\n[ "$1" = --version ] || . "{script}"\nexec "$hta" "$@"\n'
    )
    program.chmod(0o755)
    script.write_text("")
    # Workers take over the environment of their node, and nodes that of this process.
    own = pytest.MonkeyPatch()
    own.setenv(_program.VARIABLE, str(program))
    # For tests with a store, whose server they name.
    own.setenv("AWS_ACCESS_KEY_ID", "key")
    own.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    head: Dict[str, Any] = {"num_cpus": 1, "object_store_memory": 200 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=200 << 20)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        own.undo()


@pytest.fixture(autouse=True)
def clean(cluster: Cluster, script: Path) -> Iterator[None]:
    """Every test leaves nothing in the temporary folders of the machines."""
    script.write_text("")
    before = temporary_folders()
    yield
    script.write_text("")
    assert temporary_folders() <= before


def temporary_folders() -> Set[str]:
    """Temporary folders of all runs on this machine."""
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("hta-ray-")}


def assert_same(traces: Path, folder: Path, **options: Any) -> List[Progress]:
    """Analyses here and on the cluster, and compares every byte."""
    seen: List[Progress] = []
    one, other = folder / "one", folder / "other"
    for_ray = {k: options.pop(k) for k in ("tasks", "fan_in", "scratch", "num_cpus") if k in options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialResults)
        hta_engine.analyze(traces, one, **options)
        result = hta_engine.ray.analyze(traces, other, progress=seen.append, **for_ray, **options)
    assert differing(one, other) == []
    assert result.folder == other
    return seen


def kill_once(script: Path, folder: Path, which: str) -> Path:
    """Kills the worker of a command once, in the middle of its work: what it has begun is there, and then it is gone.

    Returns the folder that is there when it has happened.
    """
    done = folder / "killed"
    script.write_text(
        f'case "$*" in *"{which}"*) if mkdir "{done}" 2>/dev/null; then\n'
        f'  "$hta" "$@" > /dev/null; kill -9 $PPID; sleep 30; fi;; esac\n'
    )
    return done


@pytest.mark.parametrize("sample", ALL_SAMPLES)
def test_every_sample_gives_the_bytes_of_one_machine(sample: str, tmp_path: Path) -> None:
    seen = assert_same(SAMPLES / sample, tmp_path)
    assert seen[-1].ranks_done == seen[-1].ranks > 0


@pytest.mark.skipif(not (SHARED / "traces").is_dir(), reason="the traces of third parties are not there (HTA_SHARED)")
def test_real_ranks_of_a_megatron_job_give_the_bytes_of_one_machine(tmp_path: Path, script: Path) -> None:
    traces = SHARED / "traces" / "multirank_nccl_megatron_tp8"
    assert_same(traces, tmp_path, tasks=5, fan_in=2)
    killed = kill_once(script, tmp_path, "--share=3/5")
    again = tmp_path / "again"
    again.mkdir()
    assert_same(traces, again, tasks=5, fan_in=2)
    assert killed.is_dir()


def test_a_tree_of_merges_and_a_scratch_folder(tmp_path: Path) -> None:
    assert_same(SAMPLES / "gpu_ddp8", tmp_path, tasks=8, fan_in=3, steps="@1-@2", top=4)
    (tmp_path / "scratch").mkdir()
    again = tmp_path / "again"
    again.mkdir()
    assert_same(SAMPLES / "gpu_ddp8", again, tasks=5, fan_in=2, scratch=tmp_path / "scratch", no_events=True)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_job_goes_from_a_store_into_the_store(store: Any, tmp_path: Path) -> None:
    store.put(SAMPLES / "gpu_ddp8", "job")
    hta_engine.analyze("s3://traces/job", "s3://traces/one")
    places = {"output": "s3://traces/other", "scratch": "s3://traces/tmp/"}
    result = hta_engine.ray.analyze(
        "s3://traces/job", **places, endpoint=store.endpoint, tasks=4, fan_in=2, progress=False
    )
    assert store.contents("one/") == store.contents("other/")
    assert result.place == "s3://traces/other" and result.tables["ranks"].height == 8
    assert store.names("tmp/") == [] and store.unfinished_uploads() == []
    # From a folder, and the results into a folder.
    assert_same(SAMPLES / "gpu_ddp8", tmp_path, tasks=3, fan_in=2, scratch="s3://traces/tmp", endpoint=store.endpoint)
    assert store.names("tmp/") == []


def test_partials_in_a_store_are_removed_after_a_failure(store: Any, tmp_path: Path, script: Path) -> None:
    (tmp_path / "scratch").mkdir()
    script.write_text('case "$*" in *--share=2/3*) sleep 3; echo "hta: no power" >&2; exit 2;; esac\n')
    with pytest.raises(HtaError, match="no power"):
        hta_engine.ray.analyze(
            SAMPLES / "gpu_ddp8", "s3://traces/out", scratch="s3://traces/tmp", endpoint=store.endpoint, tasks=3
        )
    assert store.names("") == [] and store.unfinished_uploads() == []


def test_traces_are_relative_to_the_folder_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLES / "gpu_ddp8", tmp_path / "lögs 1")
    monkeypatch.chdir(tmp_path)
    one = hta_engine.analyze("lögs 1/rank_[0-3]*", "one")
    other = hta_engine.ray.analyze("lögs 1/rank_[0-3]*", "other")
    assert differing(tmp_path / "one", tmp_path / "other") == []
    assert one.tables["ranks"]["file"].equals(other.tables["ranks"]["file"])


@pytest.mark.parametrize("sample", ALL_SAMPLES)
def test_a_worker_that_is_killed_is_replaced(sample: str, tmp_path: Path, script: Path) -> None:
    killed = kill_once(script, tmp_path, "--share=0/")
    assert_same(SAMPLES / sample, tmp_path)
    assert killed.is_dir()


def test_a_worker_that_is_killed_while_it_merges_is_replaced(tmp_path: Path, script: Path) -> None:
    killed = kill_once(script, tmp_path, "merge --partial")
    assert_same(SAMPLES / "gpu_ddp8", tmp_path, tasks=4, fan_in=2)
    assert killed.is_dir()


def test_the_program_ends_with_its_worker(tmp_path: Path, script: Path) -> None:
    script.write_text(
        f'case "$*" in *--share=0/2*) if mkdir "{tmp_path}/killed" 2>/dev/null; then\n'
        f'  echo $$ > "{tmp_path}/pid"; kill -9 $PPID; exec sleep 600; fi;; esac\n'
    )
    assert_same(SAMPLES / "gpu_ddp8", tmp_path, tasks=2)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{pid}")


def test_a_worker_that_is_always_killed_is_an_error(tmp_path: Path, script: Path) -> None:
    script.write_text('case "$*" in *--share=1/2*) kill -9 $PPID; sleep 30;; esac\n')
    with pytest.raises(HtaError, match="lost more often than max_retries allows(.|\n)*memory_limit"):
        hta_engine.ray.analyze(SAMPLES / "gpu_ddp8", tmp_path / "out", tasks=2, max_retries=1)
    assert not (tmp_path / "out").exists()


def test_a_node_that_is_removed_is_made_up_for(tmp_path: Path, cluster: Cluster, script: Path) -> None:
    # What the node has finished is lost with it.
    script.write_text('case "$*" in *--partial*) sleep 0.7;; esac\n')
    node = cluster.add_node(num_cpus=2, object_store_memory=200 << 20)
    cluster.wait_for_nodes()
    one, other = tmp_path / "one", tmp_path / "other"
    hta_engine.analyze(SAMPLES / "gpu_ddp8", one)
    removed: List[Progress] = []

    def remove(progress: Progress) -> None:
        if progress.ranks_done >= 3 and not removed:
            removed.append(progress)
            cluster.remove_node(node, allow_graceful=False)

    hta_engine.ray.analyze(SAMPLES / "gpu_ddp8", other, tasks=8, fan_in=3, progress=remove)
    assert removed and removed[0].ranks_done < 8
    assert differing(one, other) == []


def test_merges_of_what_a_node_took_with_it_do_not_hinder_making_it_again(
    tmp_path: Path, cluster: Cluster, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The node maps six shares while the others map one each. When it is removed, both merges of three are still to be
    # done; as many slots are left, and they become free before Ray knows that the node is gone.
    monkeypatch.setenv("HTA_TEST_LOST_NODE", "1")
    node = cluster.add_node(num_cpus=2, object_store_memory=200 << 20)
    monkeypatch.delenv("HTA_TEST_LOST_NODE")
    cluster.wait_for_nodes()
    script.write_text(
        f'removed="{tmp_path}/removed"\n'
        'until_removed() { n=600; while [ ! -d "$removed" ] && [ $((n-=1)) -gt 0 ]; do sleep 0.1; done; }\n'
        'case "$*" in *"merge --partial"*) until_removed;;\n'
        '*--partial*) [ -n "$HTA_TEST_LOST_NODE" ] || until_removed;; esac\n'
    )
    one, other = tmp_path / "one", tmp_path / "other"
    hta_engine.analyze(SAMPLES / "gpu_ddp8", one)

    def remove(progress: Progress) -> None:
        if progress.ranks_done >= 6 and not (tmp_path / "removed").exists():
            cluster.remove_node(node, allow_graceful=False)
            (tmp_path / "removed").mkdir()

    hta_engine.ray.analyze(SAMPLES / "gpu_ddp8", other, tasks=8, fan_in=3, progress=remove)
    assert (tmp_path / "removed").exists()
    assert differing(one, other) == []


def test_errors_of_the_program_come_to_the_driver(tmp_path: Path) -> None:
    with pytest.raises(HtaError, match="no such file or folder"):
        hta_engine.ray.analyze(tmp_path / "missing")
    with pytest.raises(HtaError, match="holds no"):
        hta_engine.ray.analyze(tmp_path)
    with pytest.raises(HtaError, match="unexpected argument '--bogus'"):
        hta_engine.ray.analyze(SAMPLES / "gpu_ddp8", bogus=1)
    (tmp_path / "empty.json").write_text("")
    with pytest.raises(HtaError, match="empty file"):
        hta_engine.ray.analyze([tmp_path / "empty.json"])
    with pytest.raises(HtaError, match="only= on a cluster: partials hold all analyses"):
        hta_engine.ray.analyze(SAMPLES / "gpu_ddp8", only=["idle"])
    for options in ({"fan_in": 1}, {"tasks": 0}, {"share": "0/2"}):
        with pytest.raises(HtaError):
            hta_engine.ray.analyze(SAMPLES / "gpu_ddp8", **options)
    with pytest.raises(HtaError, match="servers of files"):
        hta_engine.ray.analyze(SAMPLES / "gpu_ddp8", "https://example.com/out")


def test_what_hinders_the_results_is_told_before_the_work(tmp_path: Path, script: Path) -> None:
    script.write_text(f'case "$*" in *--share*) touch "{tmp_path}/worked";; esac\n')
    output = tmp_path / "out"
    output.mkdir()
    (output / "notes").write_text("mine")
    with pytest.raises(HtaError, match="cannot write to .*notes"):
        hta_engine.ray.analyze(SAMPLES / "gpu_counters", output)
    with pytest.raises(HtaError, match="--fail-if"):
        hta_engine.ray.analyze(SAMPLES / "gpu_counters", fail_if="nonsense")
    assert not (tmp_path / "worked").exists()
    hta_engine.ray.analyze(SAMPLES / "gpu_counters", output, force=True)
    assert (output / "notes").read_text() == "mine" and (output / "summary.json").exists()


def test_losses_warn_and_conditions_hold_as_on_one_machine(tmp_path: Path, ddp8: Path) -> None:
    shutil.copytree(ddp8, tmp_path / "in")
    (tmp_path / "in" / "rank_5.json.gz").write_bytes(b"")
    with pytest.warns(PartialResults, match=r"rank_5\.json\.gz") as caught:
        result = hta_engine.ray.analyze(tmp_path / "in")
    assert caught[0].filename == __file__ and result.summary["rank_count"] == 7
    with pytest.raises(hta_engine.ConditionHolds):
        hta_engine.ray.analyze(ddp8, fail_if="cause(any) > 1%")
    with pytest.raises(HtaError, match="strict"):
        hta_engine.ray.analyze(tmp_path / "in", strict=True)


def test_ranks_that_no_task_has_taken_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = hta_engine.ray._listed
    # As if a file had grown after it was listed, so that it is in nobody's share.
    monkeypatch.setattr(hta_engine.ray, "_listed", lambda traces, options: (0, listed(traces, options)[1] + 1))
    with pytest.raises(HtaError, match="hold 1 of 2 files: some were changed"):
        hta_engine.ray.analyze(SAMPLES / "gpu_counters")


def test_a_folder_of_the_run_that_another_task_removes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, makedirs, removed = tmp_path / "run", os.makedirs, []

    def made_and_removed_once(path: str, mode: int, exist_ok: bool) -> None:
        makedirs(path, mode, exist_ok)
        if not removed:
            os.rmdir(path)
            removed.append(path)

    monkeypatch.setattr(os, "makedirs", made_and_removed_once)
    folder = hta_engine.ray._new_folder_in(str(base))
    assert removed == [str(base)] and Path(folder).parent == base and os.path.isdir(folder)


def test_another_version_on_a_machine_is_told() -> None:
    job = hta_engine.ray._Job("0.0.1", ["x"], [], True, 1, os.getcwd(), "x", None, [])
    with pytest.raises(hta_engine.WrongProgram, match=r"expected hta-engine 0\.0\.1 as on the driver"):
        hta_engine.ray._check_version(job)


def test_urls_are_passed_to_the_program_as_they_are(tmp_path: Path, instead: Callable[[str], Path]) -> None:
    instead(
        f'[ "$1" = inputs ] || exec "$hta" "$@"\n'
        f'printf "%s\\n" "$@" > "{tmp_path}/arguments"; echo "hta: no network" >&2; exit 2'
    )
    with pytest.raises(HtaError, match="no network"):
        hta_engine.ray.analyze("s3://bucket//job/", ranks="0-7")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments == ["inputs", "--format=json", "--ranks=0-7", "--", "s3://bucket//job/"]
