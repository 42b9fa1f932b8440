#!/usr/bin/env python3
"""Draws iterations.svg, the picture of docs/guides/serving.md, from the iterations of the sample:

    hta iterations data/samples/serving --table iterations --format json \\
        | python3 data/images/draw_iterations.py > data/images/iterations.svg

Ranges on the host, windows and gaps on the device, and periods, to scale. A test (tests/it/cli/picture.rs) says when its
numbers are stale.
"""

import json
import sys
from xml.sax.saxutils import escape

LEFT, WIDTH, BAR, LETTER = 70, 860, 26, 6.7  # pixels
HOST, DEVICE, PERIOD, AXIS = 44, 100, 152, 196  # tops of the rows
INK, FAINT, LINE = "#c9ced6", "#7d8590", "#3a414b"
RANGE, BUSY, IDLE = "#7fb2ff", "#5fb860", "#e0b04a"


def shown(ns):
    return f"{ns / 1e6:.2f} ms" if ns >= 1_000_000 else f"{ns / 1e3:.0f} us"


rows = json.load(sys.stdin)
start = min(min(r["host_ts_ns"], r["ts_ns"]) for r in rows)
end = max(max(r["host_ts_ns"] + r["host_dur_ns"] + r["host_after_ns"], r["ts_ns"] + r["dur_ns"]) for r in rows)


def x(ns):
    return LEFT + (ns - start) / (end - start) * WIDTH


def bar(top, begin, length, fill, label, title):
    wide = max(1.0, x(begin + length) - x(begin))
    out = f'<rect x="{x(begin):.1f}" y="{top}" width="{wide:.1f}" height="{BAR}" rx="3" fill="{fill}"><title>{escape(title)}</title></rect>'
    if len(label) * LETTER > wide:
        return out + text(x(begin) + wide / 2, top + BAR + 13, label, fill, "middle")
    return out + text(x(begin) + wide / 2, top + 17, label, "#16181d", "middle")


def text(at, top, words, fill=INK, anchor="start"):
    return f'<text x="{at:.1f}" y="{top}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'


out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="236" viewBox="0 0 {LEFT + WIDTH + 30} 236" '
    'role="img" aria-label="Timeline of three iterations: ranges on the host, windows and gaps on the GPU, periods">',
    '<rect width="100%" height="100%" rx="8" fill="#16181d"/>',
    '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="11">',
]
for top, name in ((HOST, "host"), (DEVICE, "GPU"), (PERIOD, "period")):
    out.append(text(12, top + 17, name, FAINT))
for r in rows:
    # Kept as the table has it: the first words of the label are phase and requests.
    label = " ".join(r["label"].split()[:3])
    out.append(bar(HOST, r["host_ts_ns"], r["host_dur_ns"], RANGE, label, r["name"]))
    after = r["host_ts_ns"] + r["host_dur_ns"]
    out.append(text(x(after) + 4, HOST - 8, f"bubble {shown(r['host_exposed_ns'])}", IDLE))
    out.append(bar(DEVICE, r["ts_ns"], r["dur_ns"], BUSY, f"window {shown(r['dur_ns'])}", r["label"]))
    period = r["period_ns"]
    if r["gap_ns"] is not None:
        begin = r["ts_ns"] + r["dur_ns"]
        out.append(bar(DEVICE, begin, r["gap_ns"], IDLE, f"gap {shown(r['gap_idle_ns'])} idle", "time between windows"))
        y = PERIOD + 12
        out.append(f'<path d="M{x(r["ts_ns"]) + 2:.1f} {y}H{x(r["ts_ns"] + period) - 2:.1f}" stroke="{INK}"/>')
        rate = r["tokens_per_s"]
        words = f"{shown(period)}" + (f", {rate:.0f} tokens/s" if rate is not None else "")
        out.append(text((x(r["ts_ns"]) + x(r["ts_ns"] + period)) / 2, y - 5, words, INK, "middle"))
    for at in (r["ts_ns"], r["ts_ns"] + period):
        out.append(f'<path d="M{x(at):.1f} {DEVICE - 8}V{PERIOD + 22}" stroke="{LINE}"/>')
step = 500_000
for k in range((end - start) // step + 1):
    at = x(start + k * step)
    out.append(f'<path d="M{at:.1f} {AXIS}v6" stroke="{FAINT}"/>')
    out.append(text(at, AXIS + 20, f"{k * step / 1e6:.1f} ms", FAINT, "middle"))
out.append("</g>\n</svg>")
print("\n".join(out))
