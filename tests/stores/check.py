#!/usr/bin/env python3
"""Reads from and writes to stores of other makers, on this machine.

    pip install 'moto[server]' && npm install --prefix FOLDER azurite
    python3 tests/stores/check.py --hta target/release/hta --azurite FOLDER/node_modules/.bin/azurite-blob

S3 is served by moto, Google Cloud Storage by moto behind tests/stores/google_store.py, Azure Blob Storage by Azurite (skipped if it
is not there). The other checks, with every fault, are in tests/it/stores.

For each store: traces give the tables of local files; results in the store have the bytes of results on disk; queries of
both agree; two partials in the store merge to the results of one run.
"""

import argparse
import base64
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import google_store

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "data" / "samples"
NAMES = ["gpu_ddp8", "gpu_single", "gloo_ddp4", "cpu_single"]
# Azurite's own account, which its documentation publishes.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            if process.poll() is not None:
                sys.exit(f"{command[0]} ended with {process.returncode}")
            time.sleep(0.1)
    sys.exit(f"{command[0]} does not answer")


def put_s3(endpoint, authorization=None):
    """moto takes requests without a signature."""

    def put(container, key=None, body=b""):
        url = f"{endpoint}/{container}" + (f"/{urllib.parse.quote(key)}" if key else "")
        # moto would wait for more of a form, which is the default type.
        headers = {"Content-Type": "application/octet-stream"}
        if authorization:
            headers["Authorization"] = authorization
        urllib.request.urlopen(urllib.request.Request(url, data=body, method="PUT", headers=headers), timeout=30).read()

    return put


def put_google(endpoint):
    headers = {"Metadata-Flavor": "Google"}
    request = urllib.request.Request(endpoint + google_store.TOKEN_PATH, headers=headers)
    return put_s3(endpoint, f"Bearer {json.load(urllib.request.urlopen(request, timeout=30))['access_token']}")


def put_azure(endpoint):
    def put(container, key=None, body=b""):
        path, query = f"/{ACCOUNT}/{container}", {}
        if key:
            path += "/" + urllib.parse.quote(key)
        else:
            query = {"restype": "container"}
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = {"x-ms-date": now, "x-ms-version": "2021-08-06"}
        if key:
            headers["x-ms-blob-type"] = "BlockBlob"
        own = "".join(f"{k}:{v}\n" for k, v in sorted(headers.items()))
        asked = "".join(f"\n{k}:{v}" for k, v in sorted(query.items()))
        length = str(len(body)) if body else ""
        kind = "application/octet-stream" if body else ""
        text = f"PUT\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n{own}/{ACCOUNT}{path}{asked}"
        signature = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
        if body:
            headers["Content-Type"] = kind
        url = endpoint + path + ("?" + urllib.parse.urlencode(query) if query else "")
        request = urllib.request.Request(url, data=body or None, method="PUT", headers=headers)
        if not body:
            request.add_unredirected_header("Content-Length", "0")
        urllib.request.urlopen(request).read()

    return put


def contents(folder):
    files = sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


class Check:
    def __init__(self, hta, scheme, env, put):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCE_"))}
        self.hta, self.root, self.env = hta, f"{scheme}://traces", {**clean, **env}
        self.put = put

    def run(self, *arguments, code=(0, 1)):
        done = subprocess.run([self.hta, *map(str, arguments)], env=self.env, capture_output=True, timeout=120)
        if done.returncode not in code:
            sys.exit(f"{arguments}: exit code {done.returncode}\n{done.stderr.decode()}")
        return done.stdout

    def reading(self):
        self.put("traces")
        for name in NAMES:
            for path in sorted((SAMPLES / name).iterdir()):
                self.put("traces", f"{name}/{path.name}", path.read_bytes())
        for name in NAMES:
            ask = lambda place: self.run("kernels", place, "--format", "csv") + self.run("breakdown", place, "--format", "csv")
            assert ask(SAMPLES / name) == ask(f"{self.root}/{name}"), f"{self.root}: {name} differs"
        missing = subprocess.run([self.hta, "breakdown", f"{self.root}/none"], env=self.env, capture_output=True)
        assert missing.returncode == 2 and b"cannot find" in missing.stderr, missing.stderr

    def writing(self, work):
        local, remote = work / "out", f"{self.root}/out"
        for out in (local, remote, remote):
            self.run("analyze", SAMPLES / "gpu_ddp8", "--out", out)
        question = "SELECT name, COUNT(*) AS n FROM events GROUP BY name ORDER BY n DESC, name"
        for query in ("top_kernels", question):
            asked = [self.run("query", query, place, "--format", "csv") for place in (local, remote)]
            assert asked[0] == asked[1], f"{remote}: {query} differs"
        for part, ranks in (("a", "[0-3]"), ("b", "[4-7]")):
            self.run("analyze", "--partial", f"{self.root}/gpu_ddp8/rank_{ranks}.json.gz", "--out", f"{self.root}/{part}")
        merged, whole = work / "merged", work / "whole"
        self.run("merge", f"{self.root}/b", f"{self.root}/a", "--out", merged)
        self.run("analyze", f"{self.root}/gpu_ddp8", "--out", whole)
        assert contents(merged) == contents(whole), f"{self.root}: merged results differ"
        # What is written is what was meant, large files included.
        trace = large(work)
        self.run("analyze", trace, "--only", "breakdown", "--out", work / "large")
        self.run("analyze", trace, "--only", "breakdown", "--out", f"{self.root}/large")
        every = "SELECT * FROM events"
        asked = [self.run("query", every, place, "--format", "csv") for place in (work / "large", f"{self.root}/large")]
        assert asked[0] == asked[1], f"{self.root}: large results differ"


def large(work):
    """A trace whose events are larger than one part of an upload, in names that cannot be packed."""
    path = work / "rank_0.json"
    if not path.exists():
        names = (base64.b64encode(hashlib.sha512(str(i).encode()).digest()).decode() for i in range(220_000))
        event = '{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":1,"ts":%d,"dur":1}'
        path.write_text('{"traceEvents":[' + ",".join(event % (n, i) for i, n in enumerate(names)) + "]}")
    return path


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--hta", default=ROOT / "target/release/hta")
    args.add_argument("--moto", default=pathlib.Path(sys.executable).parent / "moto_server")
    args.add_argument("--azurite", default=shutil.which("azurite-blob"))
    args = args.parse_args()
    hta = pathlib.Path(args.hta).resolve()
    servers = []
    try:
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)

            def folder(name):
                (work / name).mkdir()
                return work / name

            def check(scheme, command, port, keys, put):
                servers.append(start(command, port))
                check = Check(hta, scheme, keys, put(f"http://127.0.0.1:{port}"))
                check.reading()
                check.writing(folder(scheme))

            port = free_port()
            keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
            keys["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
            check("s3", [args.moto, "-H", "127.0.0.1", "-p", str(port)], port, keys, put_s3)
            print("s3://: same results with moto")
            port = free_port()
            keys = {key: f"127.0.0.1:{port}" for key in ("GCE_METADATA_HOST", "GCE_METADATA_IP")}
            keys["GOOGLE_BASE_URL"] = f"http://127.0.0.1:{port}"
            check("gs", [sys.executable, google_store.__file__, "--port", str(port)], port, keys, put_google)
            print("gs://: same results with moto behind Google's tokens")
            if not args.azurite or not pathlib.Path(args.azurite).exists():
                print("az://: skipped, there is no azurite-blob (npm install azurite)")
                return
            port = free_port()
            command = [args.azurite, "--blobPort", str(port), "--location", str(folder("azurite")), "--silent"]
            keys = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}
            keys["AZURE_STORAGE_ENDPOINT"] = f"http://127.0.0.1:{port}/{ACCOUNT}"
            check("az", [*command, "--skipApiVersionCheck", "--disableTelemetry"], port, keys, put_azure)
            print("az://: same results with Azurite")
    finally:
        for server in servers:
            server.terminate()


if __name__ == "__main__":
    main()
