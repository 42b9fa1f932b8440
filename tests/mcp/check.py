#!/usr/bin/env python3
"""Asks `hta mcp` through the official client what is planted in the samples, as an assistant would.

    python tests/mcp/check.py --hta target/release/hta

Traces and results are asked about on the disk, and in a store (moto). The client checks every structured answer against the schema that the tool declares. Exits with 1 at the first answer that
is not the planted one, or is longer than 2 kB.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SAMPLES = Path(__file__).resolve().parent.parent.parent / "data" / "samples"
MOST_BYTES = 2048


async def ask(session, tool, **arguments):
    """Status and content of an answer."""
    result = await session.call_tool(tool, arguments)
    wire = result.model_dump_json(by_alias=True, exclude_none=True)
    assert len(wire.encode()) < MOST_BYTES, f"{tool}: {len(wire)} bytes"
    content = json.loads(wire)["structuredContent"]
    assert bool(json.loads(wire).get("isError")) == (content["status"] == "refused"), wire
    return content


async def answer(session, tool, **arguments):
    content = await ask(session, tool, **arguments)
    assert content["status"] == "answered", f"{tool} {arguments}: {content}"
    return content["answer"]


async def everything(session, tool, field, **arguments):
    """Items of a list, page by page."""
    items = []
    cursor = None
    while True:
        content = await ask(session, tool, **arguments, **({"cursor": cursor} if cursor else {}))
        assert content["status"] == "answered", content
        items += content["answer"][field]
        cursor = content.get("cursor")
        if cursor is None:
            return items


async def eight_ranks(session):
    """The facts of KNOWN_ANSWERS.json."""
    known = json.loads((SAMPLES / "KNOWN_ANSWERS.json").read_text())
    planted = {p["fact"]: p for p in known["planted"]}
    late, idle = planted["late_rank"], planted["idle"]
    of = {"source": "gpu_ddp8"}
    verdict = await answer(session, "verdict", **of)
    assert verdict["lines"][0].startswith(f"Rank {late['rank']} is late in all 5 steps"), verdict
    # Sentences leave the parameters of a kernel out.
    assert late["kernel"].split("(")[0] in verdict["lines"][1], verdict
    causes = {c["kind"]: c for c in await everything(session, "causes", "causes", **of)}
    assert causes["straggler"]["recoverable_ns"] == sum(late["first_arrival_minus_second_last_ns_by_step"]), causes
    assert causes["data_loader"]["recoverable_ns"] == 5 * idle["idle_in_loader_ns_per_step"], causes
    evidence = await answer(session, "evidence", finding_id=causes["straggler"]["finding_id"], **of)
    assert "takes 6.00 ms longer" in evidence["evidence"][0]["words"], evidence
    sql = "SELECT rank, compute_ns, idle_ns FROM temporal_breakdown WHERE scope = 'span' ORDER BY rank"
    rows = await everything(session, "sql", "rows", statement=sql, **of)
    spans = [[r["rank"], r["span"]["compute_ns"], r["span"]["idle_ns"]] for r in known["ranks"]]
    assert rows == spans, rows


async def others(session):
    truth = json.loads((SAMPLES / "gloo_ddp4" / "ground_truth.json").read_text())
    verdict = await answer(session, "verdict", source="gloo_ddp4")
    assert verdict["lines"][0].startswith(f"Rank {truth['straggler']} is late in all {truth['active']} steps"), verdict
    assert "sleep" in verdict["lines"][1], verdict
    first = (await answer(session, "verdict", source="gpu_single"))["lines"][0]
    assert "data loader" in first and "2.00 ms" in first, first
    served = await answer(session, "verdict", source="serving")
    assert "scheduler.py:12" in served["lines"][1] and "5,714 tokens/s" in served["headline"], served
    # No cause is told, and the account is not closed: the first sentence says what is missing.
    for source, missing in [("cpu_single", "Ranks have ended their step"), ("gpu_counters", "Cannot tell where the time")]:
        first = (await answer(session, "verdict", source=source))["lines"][0]
        assert first.startswith(missing), first
    piped = await answer(session, "verdict", source="gpu_pp4")
    assert piped["lines"][0].startswith("Pipeline 1F1B, 4 stages x 8 micro-batches: bubble 34.9 %") and piped["mesh"], piped
    for source, query, column, value in [
        ("gpu_pp4", "pipeline_bubbles", "imbalance_ns", 3_825_000), ("gpu_ep4", "hot_experts", "hot_rank", 2),
    ]:
        found = await answer(session, "sql", source=source, statement=query)
        assert found["rows"][0][[c["name"] for c in found["columns"]].index(column)] == value, found
    compared = await answer(session, "compare", base="gpu_ddp8", test="gpu_single")
    assert compared["causes"][0]["state"] == "gone", compared


async def refusals(session):
    cannot = await ask(session, "verdict", source="one_rank_cut")
    assert cannot["status"] == "cannot_answer" and "too short" in cannot["reason"], cannot
    for tool, arguments in [
        ("verdict", {"source": "../../etc"}),
        ("verdict", {"source": "/etc/passwd"}),
        ("sql", {"source": "gpu_single", "statement": "SELECT * FROM read_csv('/etc/passwd')"}),
        ("sql", {"source": "gpu_single", "statement": "DROP TABLE ranks"}),
        ("evidence", {"source": "gpu_single", "finding_id": "none-0"}),
    ]:
        content = await ask(session, tool, **arguments)
        assert content["status"] == "refused" and content["reason"], (tool, arguments, content)


async def in_a_store(session):
    """Traces and results at URLs give what they give on the disk."""
    known = await answer(session, "sources")
    assert [(s["id"], s["kind"]) for s in known["sources"]] == [("gpu_ddp8", "traces"), ("gpu_single", "results")], known
    await eight_ranks(session)
    first = (await answer(session, "verdict", source="s3://jobs/out/gpu_single"))["lines"][0]
    assert "data loader" in first and "2.00 ms" in first, first
    tables = await everything(session, "tables", "tables", source="gpu_single")
    assert {"findings", "events", "kernels"} <= {t["name"] for t in tables}, tables
    schema = await answer(session, "schema", source="gpu_single", table="ranks")
    assert schema["columns"][0]["name"] == "rank", schema
    compared = await answer(session, "compare", base="gpu_ddp8", test="gpu_single")
    assert compared["causes"][0]["state"] == "gone", compared
    for outside in ("s3://jobs", "s3://jobs/out", "s3://jobs/gpu_ddp8/rank_0.json.gz", "s3://others/out"):
        content = await ask(session, "verdict", source=outside)
        assert content["status"] == "refused", content


@contextlib.contextmanager
def store(moto, hta):
    """The environment in which there is a store with traces at s3://jobs/gpu_ddp8 and results at s3://jobs/out/gpu_single."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([moto, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.1)
        headers = {"Content-Type": "application/octet-stream", "x-amz-acl": "public-read"}
        files = {f"/jobs/gpu_ddp8/{p.name}": p.read_bytes() for p in sorted((SAMPLES / "gpu_ddp8").iterdir())}
        for key, body in {"/jobs": b"", **files}.items():
            request = urllib.request.Request(endpoint + key, data=body, method="PUT", headers=headers)
            urllib.request.urlopen(request, timeout=30).read()
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "GOOGLE_"))}
        environment = {**clean, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        command = [hta, "analyze", SAMPLES / "gpu_single", "--out", "s3://jobs/out/gpu_single", "--endpoint", endpoint]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        yield environment, endpoint
    finally:
        server.terminate()
        server.wait()


async def questions_of(hta, arguments, environment, every):
    server = StdioServerParameters(command=hta, args=["mcp", *arguments], env=environment)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        assert hello.instructions and "verdict" in hello.instructions
        tools = (await session.list_tools()).tools
        assert len(tools) == 11 and all(t.output_schema for t in tools), tools
        for questions in every:
            await questions(session)
            print(f"{questions.__name__}: as planted")


async def check(hta, moto):
    names = ["gpu_ddp8", "gpu_pp4", "gpu_ep4", "gpu_single", "gloo_ddp4", "cpu_single", "serving", "gpu_counters", "gpu_cuspy"]
    paths = [str(SAMPLES / n) for n in names] + [str(SAMPLES.parent.parent / "tests/broken/one_rank_cut")]
    await questions_of(hta, paths, None, (eight_ranks, others, refusals))
    with store(moto, hta) as (environment, endpoint):
        urls = ["s3://jobs/gpu_ddp8/", "s3://jobs/out/gpu_single"]
        await questions_of(hta, [*urls, "--endpoint", endpoint], environment, (in_a_store,))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hta", default="hta", help="the program")
    parser.add_argument("--moto", default=Path(sys.executable).parent / "moto_server", help="the server of moto")
    arguments = parser.parse_args()
    asyncio.run(check(arguments.hta, arguments.moto))


if __name__ == "__main__":
    sys.exit(main())
