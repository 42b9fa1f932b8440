#!/usr/bin/env python3
"""What reading from a store costs, compared with reading files.

    cargo build --release --bin hta
    python3 tests/bench/stores.py [--hta PATH] [--runs N] [--events N] [--ranks N]

Writes a job of --ranks ranks with --events events each, as .json and as .json.gz, serves it by the protocol of S3 from a
process of this machine, and runs `hta analyze --no-events` on files and on objects in turn. Prints the CPU time of hta
(user and system, best of the runs) and its peak memory (resident set), and the ratio and the difference. The server's own
time does not count. Expected: at most 1.5 times the CPU, at most 32 MB more memory. Needs Python and a built `hta`.
"""

import argparse
import gzip
import http.server
import multiprocessing
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Handler(http.server.BaseHTTPRequestHandler):
    """GET of objects with ranges, and the list of a bucket."""

    protocol_version = "HTTP/1.1"
    folder = None

    def log_message(self, *_):
        pass

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        bucket, _, key = url.path.strip("/").partition("/")
        query = urllib.parse.parse_qs(url.query)
        if "list-type" in query:
            prefix = query.get("prefix", [""])[0]
            files = sorted(p for p in self.folder.rglob("*") if p.is_file())
            rows = ""
            for path in files:
                name = str(path.relative_to(self.folder))
                if name.startswith(prefix):
                    rows += (
                        f"<Contents><Key>{name}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified>"
                        f"<ETag>\"{path.stat().st_size}\"</ETag><Size>{path.stat().st_size}</Size></Contents>"
                    )
            body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()
            return self.answer(200, body, Content_Type="application/xml")
        path = self.folder / urllib.parse.unquote(key)
        if not path.is_file():
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        size = path.stat().st_size
        known = {"ETag": f'"{size}"', "Last_Modified": "Tue, 14 Nov 2023 22:13:20 GMT"}
        asked = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        end = min(size, int(asked[2]) + 1) if asked and asked[2] else size
        self.send_response(206 if asked else 200)
        for name, value in known.items():
            self.send_header(name.replace("_", "-"), value)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        try:
            with open(path, "rb") as file:
                self.wfile.flush()
                at = start
                while at < end:
                    at += os.sendfile(self.connection.fileno(), file.fileno(), at, end - at)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def serve(folder, pipe):
    Handler.folder = folder
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_port)
    server.serve_forever()


def trace(events, rank):
    """Launches and kernels of a hundred operators, in the form of torch.profiler."""
    rng = random.Random(rank)
    rows = []
    for i in range(events // 3):
        at, name = 30 * i, rng.randrange(100)
        args = f'"External id": {i}, "correlation": {i}'
        rows.append(f'{{"ph": "X", "cat": "cpu_op", "name": "aten::op_{name}", "pid": 1, "tid": 1, "ts": {at}.125, "dur": 20.5, "args": {{"External id": {i}, "Input Dims": [[{name}, 1024], [1024, 4096]]}}}}')
        rows.append(f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {at + 5}.25, "dur": 4.5, "args": {{{args}}}}}')
        rows.append(f'{{"ph": "X", "cat": "kernel", "name": "kernel_{name}<float, {name}>(int, float*)", "pid": 0, "tid": 7, "ts": {at + 9}.5, "dur": {rng.randrange(2, 25)}.75, "args": {{"device": 0, "stream": 7, {args}, "grid": [{name + 1}, 1, 1], "block": [256, 1, 1]}}}}')
    head = f'{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 8}}, "traceEvents": [\n'
    return (head + ",\n".join(rows) + "\n]}").encode()


def measured(hta, place, out, env):
    """CPU seconds and peak memory in bytes of one run."""
    process = subprocess.Popen([hta, "analyze", place, "--no-events", "--no-html", "--out", out, "--force"], env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"{place}: hta failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--hta", default=ROOT / "target/release/hta")
    args.add_argument("--runs", type=int, default=5)
    args.add_argument("--events", type=int, default=300_000)
    args.add_argument("--ranks", type=int, default=4)
    args = args.parse_args()
    hta = str(pathlib.Path(args.hta).resolve())
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for kind in ("json", "gz"):
            folder = work / "bucket" / kind
            folder.mkdir(parents=True)
            for rank in range(args.ranks):
                text = trace(args.events, rank)
                packed = gzip.compress(text, 5) if kind == "gz" else text
                (folder / f"rank_{rank}.json{'.gz' if kind == 'gz' else ''}").write_bytes(packed)
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(work / "bucket", theirs), daemon=True)
        server.start()
        endpoint = f"http://127.0.0.1:{ours.recv()}"
        env = {**os.environ, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": endpoint}
        time.sleep(0.2)
        for kind in ("json", "gz"):
            size = sum(p.stat().st_size for p in (work / "bucket" / kind).iterdir())
            places = {"files": str(work / "bucket" / kind), "store": f"s3://bucket/{kind}"}
            runs = {name: [] for name in places}
            for _ in range(args.runs):
                for name, place in places.items():
                    runs[name].append(measured(hta, place, str(work / f"out-{kind}-{name}"), env))
            cpu = {name: min(r[0] for r in of) for name, of in runs.items()}
            memory = {name: sorted(r[1] for r in of)[len(of) // 2] for name, of in runs.items()}
            print(
                f"{kind}: {args.ranks} ranks, {size / 1e6:.0f} MB: CPU files {cpu['files']:.2f} s, store {cpu['store']:.2f} s, "
                f"ratio {cpu['store'] / cpu['files']:.2f}; peak memory files {memory['files'] / 1e6:.0f} MB, "
                f"store {memory['store'] / 1e6:.0f} MB, difference {(memory['store'] - memory['files']) / 1e6:+.0f} MB"
            )
        server.terminate()


if __name__ == "__main__":
    main()
