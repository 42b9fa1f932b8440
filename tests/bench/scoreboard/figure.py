"""The figure of the page: a bar of outcomes for each kind, in light and dark colours by the reader's setting."""

from html import escape

from .lines import OUTCOMES
from .rates import Tally

WIDTH, LEFT, BAR, ROW = 1080, 180, 420, 24
WORDS = {
    "right": "right", "set": "set", "cannot_tell": "cannot tell", "missed": "missed", "wrong": "wrong",
    "sure": "wrong and sure", "dropped": "dropped",
}  # fmt: skip
COUNTED = OUTCOMES[:-1]
STYLE = """<style>
text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #1f2328 }
.page { fill: #ffffff; stroke: #d1d9e0 }
.head { font-weight: 600 }
.note { fill: #59636e }
.right { fill: #2f7ebc } .set { fill: #9ecae1 } .cannot_tell { fill: #b4b9c0 }
.missed { fill: #f3d06b } .wrong { fill: #ee8a35 } .sure { fill: #c62828 }
text.ink { fill: #16181d } text.paper { fill: #ffffff }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117; stroke: #3d444d } .note { fill: #9198a1 }
}
</style>"""


def text(x, y, words, style="", anchor="start"):
    of = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of} text-anchor="{anchor}">{escape(words)}</text>'


def box(x, y, width, height, style, title=""):
    of = f"<title>{escape(title)}</title>" if title else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" class="{style}">{of}</rect>'


def legend(y):
    x = 16
    for outcome in COUNTED:
        yield box(x, y - 10, 12, 12, outcome)
        words = WORDS[outcome] + (" (controls: nothing else is told)" if outcome == "right" else "")
        yield text(x + 17, y, words)
        x += 40 + 7 * len(words)


def bar(name, tally, y):
    """A row: the name, the outcomes as parts of one length, and the counts that have no room in their part."""
    yield text(LEFT - 8, y + 13, name, anchor="end")
    x, aside = LEFT, []
    for outcome in COUNTED:
        count = tally.counts[outcome]
        if not count:
            continue
        width = BAR * count / tally.runs
        yield box(x, y, max(1, width - 1), 18, outcome, f"{name}: {count} {WORDS[outcome]}")
        if width > 8 + 7 * len(str(count)):
            ink = "paper" if outcome in ("right", "sure") else "ink"
            yield text(x + width / 2, y + 13, str(count), ink, "middle")
        else:
            aside.append(f"{count} {WORDS[outcome]}")
        x += width
    runs = f"{tally.runs} run" + "s" * (tally.runs != 1)
    yield text(LEFT + BAR + 8, y + 13, runs + (": " if aside else "") + ", ".join(aside), "note")


def draw(groups):
    """`groups`: a heading, and its kinds as pairs of a name and its lines."""
    parts, y = list(legend(28)), 42
    for heading, kinds in groups:
        kinds = [(name, tally) for name, tally in ((name, Tally(of)) for name, of in kinds) if tally.runs]
        if not kinds:
            continue
        parts.append(text(16, y + 16, heading, "head"))
        y += ROW
        for name, tally in kinds:
            parts += bar(name, tally, y)
            y += ROW
        y += 6
    what = "Share of the runs of each kind by outcome: " + ", ".join(WORDS[o] for o in COUNTED)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 8}" viewBox="0 0 {WIDTH} {y + 8}" '
        'role="img" aria-labelledby="title desc">\n<title id="title">Answers of hta by kind of change</title>\n'
        f'<desc id="desc">{what}. The table of the page has the same counts.</desc>\n{STYLE}\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{y + 7}" rx="8" class="page"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"
