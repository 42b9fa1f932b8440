"""How the notebooks look: one colour for one thing everywhere, from a set that colour-blind readers can tell apart."""

import plotly.graph_objects as go
import plotly.io as pio
from IPython.display import Markdown, display

# Okabe and Ito's colours
COLOURS = {
    "compute": "#0072B2",
    "communication": "#E69F00",
    "memory": "#009E73",
    "idle": "#B8BCC2",
    "overlapped": "#56B4E9",
    "waiting": "#D55E00",
    "transfer": "#E69F00",
    "unmatched": "#CC79A7",
    "other": "#B8BCC2",
}
SERIES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A5195", "#5B6770"]
SCALE = "Cividis"

INK, FAINT = "#22272E", "#E3E6EA"
AXIS = {"gridcolor": FAINT, "zerolinecolor": FAINT, "linecolor": "#AEB4BC", "ticks": "outside", "ticklen": 4,
        "tickcolor": "#AEB4BC", "title": {"standoff": 10}, "automargin": True}

pio.templates["hta"] = go.layout.Template(
    layout={
        "font": {"family": "Inter, Segoe UI, Helvetica, Arial, sans-serif", "size": 13, "color": INK},
        "title": {"font": {"size": 17}, "x": 0, "xref": "container", "xanchor": "left", "pad": {"l": 12, "t": 14},
                  "y": 1, "yref": "container", "yanchor": "top"},
        "colorway": SERIES,
        "colorscale": {"sequential": SCALE},
        "plot_bgcolor": "white",
        "paper_bgcolor": "white",
        "xaxis": AXIS,
        "yaxis": AXIS,
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "title": {"text": ""},
                   "traceorder": "normal"},
        "margin": {"l": 70, "r": 24, "t": 92, "b": 60},
        "bargap": 0.25,
        "hoverlabel": {"align": "left", "namelength": -1},
        "height": 420,
    }
)
pio.templates.default = "hta"


def nothing(text: str) -> None:
    """In place of a chart that would be empty: why it would."""
    display(Markdown(f"> *Nothing to draw: {text}*"))


def holds(claim: str, is_true: bool, rows: int) -> None:
    """States a claim about so many rows, and stops the notebook if it does not hold."""
    assert is_true, f"does not hold: {claim}"
    print(f"holds for {rows:>6,} rows   {claim}" if rows else f"nothing to check        {claim}")


def short(name: str, most: int = 44) -> str:
    """A name for an axis; the whole one belongs into the hover text."""
    return name if len(name) <= most else f"{name[: most - 13]}…{name[-12:]}"


def labels(names, most: int = 44) -> list[str]:
    """Names for an axis. What is made equal by shortening stays apart: Plotly would draw one bar over the other."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        label = markup(short(name or "(no name)", most))
        seen[label] = seen.get(label, -1) + 1
        out.append(label + "\u200b" * seen[label])  # of no width
    return out


def markup(name: str) -> str:
    """A name as text: Plotly reads `<b>` in it as bold."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
