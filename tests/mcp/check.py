#!/usr/bin/env python3
"""Asks `hta mcp` through the official client what is planted in the samples, as an assistant would.

    python tests/mcp/check.py --hta target/release/hta

The client checks every structured answer against the schema that the tool declares. Exits with 1 at the first answer that
is not the planted one, or is longer than 2 kB.
"""

import argparse
import asyncio
import json
import sys
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
    assert late["kernel"] in verdict["lines"][0], verdict
    causes = {c["kind"]: c for c in await everything(session, "causes", "causes", **of)}
    assert causes["straggler"]["recoverable_ns"] == sum(late["first_arrival_minus_second_last_ns_by_step"]), causes
    assert causes["data_loader"]["recoverable_ns"] == 5 * idle["idle_in_loader_ns_per_step"], causes
    evidence = await answer(session, "evidence", finding_id=causes["straggler"]["finding_id"], **of)
    assert "6.00 ms a step longer" in evidence["evidence"][0]["words"], evidence
    sql = "SELECT rank, compute_ns, idle_ns FROM temporal_breakdown WHERE scope = 'span' ORDER BY rank"
    rows = await everything(session, "sql", "rows", statement=sql, **of)
    spans = [[r["rank"], r["span"]["compute_ns"], r["span"]["idle_ns"]] for r in known["ranks"]]
    assert rows == spans, rows


async def others(session):
    truth = json.loads((SAMPLES / "gloo_ddp4" / "ground_truth.json").read_text())
    verdict = await answer(session, "verdict", source="gloo_ddp4")
    assert verdict["lines"][0].startswith(f"Rank {truth['straggler']} is late in all {truth['active']} steps"), verdict
    assert "sleep" in verdict["lines"][0], verdict
    first = (await answer(session, "verdict", source="gpu_single"))["lines"][0]
    assert "data loader" in first and "2.00 ms" in first, first
    first = (await answer(session, "verdict", source="serving"))["lines"][0]
    assert "scheduler.py:12" in first, first
    for source in ("cpu_single", "gpu_counters"):
        first = (await answer(session, "verdict", source=source))["lines"][0]
        assert first.startswith("No single repair gives 2 %"), first
    compared = await answer(session, "compare", base="gpu_ddp8", test="gpu_single")
    assert compared["causes"][0]["state"] == "gone", compared


async def refusals(session):
    cannot = await ask(session, "verdict", source="one_rank_cut")
    assert cannot["status"] == "cannot_answer" and "no recorded kernel" in cannot["reason"], cannot
    for tool, arguments in [
        ("verdict", {"source": "../../etc"}),
        ("verdict", {"source": "/etc/passwd"}),
        ("sql", {"source": "gpu_single", "statement": "SELECT * FROM read_csv('/etc/passwd')"}),
        ("sql", {"source": "gpu_single", "statement": "DROP TABLE ranks"}),
        ("evidence", {"source": "gpu_single", "finding_id": "none-0"}),
    ]:
        content = await ask(session, tool, **arguments)
        assert content["status"] == "refused" and content["reason"], (tool, arguments, content)


async def check(hta):
    names = ["gpu_ddp8", "gpu_single", "gloo_ddp4", "cpu_single", "serving", "gpu_counters"]
    paths = [str(SAMPLES / n) for n in names] + [str(SAMPLES.parent.parent / "tests/broken/one_rank_cut")]
    server = StdioServerParameters(command=hta, args=["mcp", *paths])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        assert hello.instructions and "verdict" in hello.instructions
        tools = (await session.list_tools()).tools
        assert len(tools) == 11 and all(t.output_schema for t in tools), tools
        for questions in (eight_ranks, others, refusals):
            await questions(session)
            print(f"{questions.__name__}: as planted")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hta", default="hta", help="the program")
    arguments = parser.parse_args()
    asyncio.run(check(arguments.hta))


if __name__ == "__main__":
    sys.exit(main())
