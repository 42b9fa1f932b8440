#!/usr/bin/env python3
"""Draws report.svg, the README's picture of a terminal, from the report of the 8-rank sample:

    hta analyze data/samples/gpu_ddp8/*.json.gz | python3 data/images/draw_report.py > data/images/report.svg

Shows the head of the report and the sections below. A test (tests/it/cli/picture.rs) says when it is stale.
"""

import re
import sys
from xml.sax.saxutils import escape

COMMAND = "$ hta analyze data/samples/gpu_ddp8/*.json.gz"
SECTIONS = ["Causes, by what fixing each saves", "Where the time of each rank went"]
LETTER, LINE, MARGIN, TOP = 8, 18, 20, 50  # pixels
INK, FAINT, TITLE, PROMPT = "#c9ced6", "#565c66", "#f2c14e", "#7fb2ff"
HARD = "\u00a0"  # browsers join plain spaces


def chosen(report):
    """The lines before the first section and those of the sections wanted, with an empty one between."""
    report = report.split("\n\nresults in ")[0]
    parts = re.split(r"\n\n(?=[^\n]+\n-+\n)", report.rstrip("\n"))
    kept = [parts[0]] + [p for p in parts[1:] if p.split("\n", 1)[0] in SECTIONS]
    missing = set(SECTIONS) - {p.split("\n", 1)[0] for p in kept}
    if missing:
        sys.exit(f"not in the report: {', '.join(sorted(missing))}")
    lines = "\n\n".join(kept).split("\n")
    # The folder of the results is that of whoever draws the picture.
    return [COMMAND] + [line for line in lines if not line.startswith("   see ")] + ["..."]


def colour(lines, i):
    if i == 0:
        return PROMPT
    if lines[i].startswith("---"):
        return FAINT
    return TITLE if i + 1 < len(lines) and lines[i + 1].startswith("---") else INK


lines = chosen(sys.stdin.read())
width = 2 * MARGIN + LETTER * max(80, *map(len, lines))
height = TOP + LINE * len(lines) + MARGIN - LINE // 2
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
      'aria-label="Terminal showing the report of hta analyze">')
print('<rect width="100%" height="100%" rx="8" fill="#16181d"/>')
dots = zip((20, 38, 56), ("#e0605a", "#e0b04a", "#5fb860"))
print("".join(f'<circle cx="{x}" cy="18" r="5" fill="{fill}"/>' for x, fill in dots))
print('<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13">')
for i, line in enumerate(lines):
    if line:
        print(f'<text x="{MARGIN}" y="{TOP + LINE * i}" fill="{colour(lines, i)}" textLength="{LETTER * len(line)}">{escape(line).replace(" ", HARD)}</text>')
print("</g>\n</svg>")
