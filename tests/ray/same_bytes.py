#!/usr/bin/env python3
"""Checks that a job gives the same bytes however it is read and wherever it is written:

- `files`: on one machine from files, into a folder;
- `s3`: on one machine from a store, into the store;
- `ray`: on a Ray cluster of two nodes, from the store into the store, with partials kept in the store;
- `killed`: the same, and a worker is killed with -9 in the middle of its work;
- `failing`: the same as `s3`, and 5 % of the requests fail;
- `failing_ray`: the same as `ray`, and 5 % of the requests fail.

    same_bytes.py [SAMPLE_OR_FOLDER...] [--moto moto_server] [--only s3,failing]
    same_bytes.py --megatron SHARED/traces/multirank_nccl_megatron_tp8 --ranks 256     # the large one, about 25 minutes

The store is moto. Requests fail in a proxy before it: 500, 503, and connections closed before or inside the answer; which
ones is decided by a seed. Results name the traces as they were given, so files are read below a folder whose path is as
long as the URL, and `files` is compared with that path in the place of the URL; all others are compared byte by byte.
Nothing may be left behind: partials in the store, or unfinished uploads. A way that takes longer than `--timeout` seconds
ends the program with the stack of every thread.

Needs `hta_engine` with Ray (the wheel, or python/ on PYTHONPATH with HTA_PROGRAM) and, in this or another environment,
moto[server].
"""

import argparse
import contextlib
import faulthandler
import http.client
import http.server
import io
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
import warnings
import xml.etree.ElementTree

import polars as pl

import hta_engine
from hta_engine import _program

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "data" / "samples"
WAYS = ("files", "s3", "ray", "killed", "failing", "failing_ray")
BUCKET = "traces"
#: moto asks who it is, and does not check the signature.
SIGNED = "AWS4-HMAC-SHA256 Credential=key/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
#: Parts of a hundred of the requests that fail.
FAILING_PCT = 5


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Store:
    """moto, and what is in its bucket."""

    def __init__(self, moto):
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        command = [str(moto), "-H", "127.0.0.1", "-p", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if self.process.poll() is not None:
                sys.exit(f"{moto} ended with {self.process.returncode}")
            time.sleep(0.1)

    def empty(self):
        """Removes everything, and makes the bucket again."""
        request = urllib.request.Request(f"{self.endpoint}/moto-api/reset", method="POST", data=b"")
        urllib.request.urlopen(request, timeout=60).read()
        self.ask("PUT", "")

    def ask(self, method, key, query="", body=None):
        url = f"{self.endpoint}/{BUCKET}" + (f"/{urllib.parse.quote(key)}" if key else "") + (f"?{query}" if query else "")
        # moto would wait for more of a form, which is the default type.
        headers = {"Content-Type": "application/octet-stream", "Authorization": SIGNED}
        request = urllib.request.Request(url, data=body, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def put(self, folder, prefix):
        for path in sorted(folder.iterdir()):
            self.ask("PUT", f"{prefix}/{path.name}", body=path.read_bytes())

    def names(self, prefix):
        names, token = [], ""
        while True:
            text = self.ask("GET", "", f"list-type=2&prefix={urllib.parse.quote(prefix)}{token}")
            listing = xml.etree.ElementTree.fromstring(text)
            found = {element.tag.rpartition("}")[2]: element.text for element in listing}
            names += [e.text for e in listing.iter() if e.tag.endswith("}Key") or e.tag == "Key"]
            if found.get("IsTruncated") != "true":
                return names
            token = f"&continuation-token={urllib.parse.quote(found['NextContinuationToken'])}"

    def contents(self, prefix):
        return {name[len(prefix) :]: self.ask("GET", name) for name in self.names(prefix)}

    def unfinished_uploads(self):
        listing = xml.etree.ElementTree.fromstring(self.ask("GET", "", "uploads"))
        return [e.text for e in listing.iter() if e.tag.endswith("UploadId")]

    def close(self):
        self.process.terminate()
        self.process.wait()


class Failing(http.server.ThreadingHTTPServer):
    """A proxy before a store, in which some of the requests fail."""

    daemon_threads = True

    def __init__(self, endpoint, seed):
        self.store = urllib.parse.urlsplit(endpoint).netloc
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.requests = self.failed = 0
        super().__init__(("127.0.0.1", 0), Forwarded)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def mishap(self):
        """How a request fails, if it does."""
        with self.lock:
            self.requests += 1
            if self.random.random() * 100 >= FAILING_PCT:
                return None
            self.failed += 1
            return self.random.choice(("500", "503", "closed", "cut"))

    def handle_error(self, request, client_address):
        pass  # a client that closes its connection


class Forwarded(http.server.BaseHTTPRequestHandler):
    """A request that is passed on, or fails."""

    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        mishap = self.server.mishap()
        if mishap in ("500", "503"):
            self.send_response(int(mishap))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if mishap == "closed":
            self.close_connection = True
            return
        # The signature is of the host that the program has asked.
        inner = http.client.HTTPConnection(self.server.store, timeout=60)
        inner.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            inner.putheader(name, value)
        inner.endheaders(body)
        answer = inner.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        length = answer.headers.get("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        inner.close()
        if mishap == "cut":
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

    def log_message(self, format, *args):
        pass


class Cluster:
    """Ray with two nodes on this machine. Its workers run a script, which can kill one of them."""

    def __init__(self, work, cpus):
        import ray
        from ray.cluster_utils import Cluster as Nodes

        self.script, self.killed = work / "before.sh", work / "killed"
        program = work / "hta"
        program.write_text(
            f'#!/bin/sh\nhta="{_program.find()}"\n[ "$1" = --version ] || . "{self.script}"\nexec "$hta" "$@"\n'
        )
        program.chmod(0o755)
        self.script.write_text("")
        # Workers take over the environment of their node, and nodes that of this process.
        os.environ[_program.VARIABLE] = str(program)
        node = {"num_cpus": cpus, "object_store_memory": 300 << 20}
        self.nodes = Nodes(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        self.nodes.add_node(**node)
        ray.init(address=self.nodes.address, log_to_driver=False)
        self.ray = ray

    @contextlib.contextmanager
    def killing(self):
        """Kills a worker once, when the program has done part of its work."""
        if self.killed.exists():
            self.killed.rmdir()
        self.script.write_text(
            f'case "$*" in *--share=0/*) if mkdir "{self.killed}" 2>/dev/null; then\n'
            f'  "$hta" "$@" > /dev/null & sleep 0.3; kill -9 $PPID; wait; exit 2; fi;; esac\n'
        )
        yield
        self.script.write_text("")
        assert self.killed.is_dir(), "no worker was killed"

    def close(self):
        self.ray.shutdown()
        self.nodes.shutdown()


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def same(one, other, what):
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    assert not names, f"{what}: these files differ: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"


def same_but_names(files, store, path, url, what):
    """Compares results whose traces have names of the same length."""
    assert files.keys() == store.keys(), f"{what}: other files: {sorted(files.keys() ^ store.keys())}"
    differing = []
    for name, one in files.items():
        other = store[name]
        if one == other:
            continue
        if name.endswith(".parquet"):
            one, other = (pl.read_parquet(io.BytesIO(b)) for b in (one, other))
            has_schema = one.schema == other.schema
            one, other = (frame.with_columns(pl.col(pl.Categorical).cast(pl.String)) for frame in (one, other))
            renamed = one.with_columns(pl.col(pl.String).str.replace_all(path, url, literal=True))
            is_same = has_schema and renamed.equals(other)
        else:
            is_same = one.replace(path.encode(), url.encode()) == other
        if not is_same:
            differing.append(name)
    assert not differing, f"{what}: these files differ: {', '.join(differing[:8])}"


class Check:
    def __init__(self, store, cluster, work, seed, timeout):
        self.store, self.cluster, self.work, self.seed, self.timeout = store, cluster, work, seed, timeout

    def job(self, name, folder, ways, **for_ray):
        url = f"s3://{BUCKET}/{name}"
        # As long as the URL, so that columns of text have the same width.
        short = pathlib.Path("/tmp", f"{os.getpid():0>{len(url) - len('/tmp/')}}")
        short.symlink_to(folder)
        try:
            expected = None
            for way in ways:
                faulthandler.dump_traceback_later(self.timeout, exit=True)
                self.store.empty()
                self.store.put(folder, name)
                out, requests = f"s3://{BUCKET}/out/{name}/{way}", ""
                before = time.monotonic()
                if way == "files":
                    hta_engine.analyze(str(short), self.work / name, progress=False)
                else:
                    requests = self.remote(way, url, out, for_ray)
                took = time.monotonic() - before
                if way == "files":
                    found = contents(self.work / name)
                    shutil.rmtree(self.work / name)
                else:
                    found = self.store.contents(f"out/{name}/{way}/")
                    result = hta_engine.open_results(out)
                    assert result.summary["rank_count"] == result.tables["ranks"].height > 0
                if expected is None:
                    expected = (way, found)
                elif expected[0] == "files":
                    same_but_names(expected[1], found, str(short), url, f"{name}, {way}")
                    expected = (way, found)
                else:
                    same(expected[1], found, f"{name}, {way}")
                left = self.store.names("scratch/")
                assert not left, f"{name}, {way}: left in the store: {left[:5]}"
                unfinished = self.store.unfinished_uploads()
                assert not unfinished, f"{name}, {way}: {len(unfinished)} unfinished uploads"
                size = sum(map(len, found.values()))
                print(f"{name:20} {way:12} {len(found):4} files {size / 1e6:8.1f} MB {took:7.1f} s{requests}", flush=True)
        finally:
            faulthandler.cancel_dump_traceback_later()
            short.unlink()

    def remote(self, way, url, out, for_ray):
        options = {"progress": False}
        proxy = Failing(self.store.endpoint, self.seed) if way.startswith("failing") else None
        if proxy is not None:
            options["endpoint"] = proxy.endpoint
        try:
            if way in ("s3", "failing"):
                hta_engine.analyze(url, out, **options)
            else:
                from hta_engine import ray

                kept = f"s3://{BUCKET}/scratch"
                with self.cluster.killing() if way == "killed" else contextlib.nullcontext():
                    ray.analyze(url, out, scratch=kept, fan_in=2, **for_ray, **options)
            if proxy is None:
                return ""
            assert proxy.failed or proxy.requests < 100, "no request has failed"
            return f", {proxy.failed} of {proxy.requests} requests failed"
        finally:
            if proxy is not None:
                proxy.shutdown()
                proxy.server_close()


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("jobs", nargs="*", help="names of samples, or folders; all samples by default")
    args.add_argument("--megatron", type=pathlib.Path, help="a folder of ranks that is made into a large job")
    args.add_argument("--ranks", type=int, default=256)
    args.add_argument("--only", default=",".join(WAYS), help=f"some of {','.join(WAYS)}")
    args.add_argument("--moto", default=shutil.which("moto_server"), help="the server of moto")
    args.add_argument("--seed", type=int, default=25)
    args.add_argument("--timeout", type=int, default=900, help="most seconds of a way [900]")
    args = args.parse_args()
    ways = args.only.split(",")
    if not args.moto or not set(ways) <= set(WAYS):
        sys.exit("expected --moto PATH and known ways")
    warnings.simplefilter("ignore", hta_engine.PartialResults)
    # Ray would join a cluster that runs, and wait for one that was killed.
    os.environ["RAY_ADDRESS"] = "local"
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        del os.environ[name]
    store, cluster = Store(args.moto), None
    os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_ENDPOINT_URL=store.endpoint)
    try:
        with tempfile.TemporaryDirectory(prefix="hta-same-") as work:
            work = pathlib.Path(work)
            if set(ways) - {"files", "s3", "failing"}:
                faulthandler.dump_traceback_later(args.timeout, exit=True)
                cluster = Cluster(work, 1)
            check = Check(store, cluster, work, args.seed, args.timeout)
            jobs = args.jobs or ([] if args.megatron else sorted(p.name for p in SAMPLES.iterdir() if p.is_dir()))
            for job in jobs:
                folder = SAMPLES / job if (SAMPLES / job).is_dir() else pathlib.Path(job).resolve()
                check.job(folder.name, folder, ways, tasks=3)
            if args.megatron:
                large = work / "large"
                command = [sys.executable, ROOT / "tests/bench/replicate.py", "ranks", large]
                command += [*sorted(args.megatron.glob("*.json*")), "--ranks", str(args.ranks)]
                subprocess.run(list(map(str, command)), check=True)
                check.job("megatron", large, ways, tasks=16)
    finally:
        if cluster is not None:
            cluster.close()
        store.close()


if __name__ == "__main__":
    main()
