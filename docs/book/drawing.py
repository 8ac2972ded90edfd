"""Line drawings as SVG. Their colours are the page's, so they hold in light and in dark."""

from html import escape

STYLE = """
.drawing { color: currentColor; font-family: sans-serif; }
.drawing text { fill: currentColor; font-size: 15px; }
.drawing text.small { font-size: 12px; }
.drawing polyline { fill: none; stroke: currentColor; stroke-width: 1.4; }
.drawing polygon { fill: currentColor; }
.drawing rect, .drawing circle { fill: var(--color-code-background, #f4f4f4);
  stroke: currentColor; stroke-width: 1.2; }
.drawing rect.cell { fill: var(--color-brand-primary, #2962ff); stroke: none; }
.drawing rect.hot { fill: var(--color-brand-primary, #2962ff); fill-opacity: .28; }
.drawing .thin { stroke-opacity: .35; stroke-dasharray: 3 3; }
.drawing polyline.back { stroke: var(--color-brand-primary, #2962ff); stroke-dasharray: 5 3; }
.drawing polygon.back { fill: var(--color-brand-primary, #2962ff); }
"""


class Drawing:
    """A picture of `width` by `height` units, y downwards; `label` says what it shows.

    Kinds of lines and arrows: "" a value, "back" a gradient, "thin" a help line.
    """

    def __init__(self, width, height, label):
        self.size, self.label, self.parts = (width, height), label, []

    def svg(self):
        width, height = self.size
        return (f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                f'role="img" class="drawing" aria-label="{escape(self.label)}">'
                f'<style>{STYLE}</style>{"".join(self.parts)}</svg>')

    def text(self, x, y, words, kind="", anchor="middle"):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}" '
                          f'dominant-baseline="central">{escape(words)}</text>')

    def box(self, x, y, words="", width=64, height=30, kind=""):
        """A box around its middle (x, y)."""
        self.parts.append(f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" '
                          f'height="{height:g}" rx="5" class="{kind}"/>')
        if words:
            self.text(x, y, words)

    def dot(self, x, y, sign):
        """A circle with an operation in it."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="12"/>')
        self.text(x, y, sign)

    def line(self, points, kind=""):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" class="{kind}"/>')

    def arrow(self, *points, kind=""):
        """A line through points, with a head at the last."""
        self.line(points, kind)
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
        u, v = (x - x0) / length, (y - y0) / length
        tips = [(x, y), (x - 8 * u + 4 * v, y - 8 * v - 4 * u), (x - 8 * u - 4 * v,
                                                                  y - 8 * v + 4 * u)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in tips)
        self.parts.append(f'<polygon points="{path}" class="{kind}"/>')

    def cell(self, x, y, weight, size=26, words=""):
        """A square of a matrix, the fuller the larger its weight in [0, 1]."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{size - 2:g}" height="{size - 2:g}" '
                          f'class="cell" fill-opacity="{weight:.3f}"/>')
        if words:
            self.text(x + size / 2 - 1, y + size / 2 - 1, words, "small")
