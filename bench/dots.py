"""Draws ratios as an SVG of dots: a line a model, a dot a batch size, on a logarithmic scale."""

import html
import math

WIDTH, LEFT, RIGHT, TOP, LINE = 760, 130, 30, 70, 22
COLOURS = ("#9ecae1", "#4a98c9", "#1764ab", "#08306b")
INK, GRID = "#222", "#ddd"


def _ticks(low, high):
    """Round numbers within the range, few enough to be read."""
    every = [x * 10 ** e for e in range(-2, 4) for x in (1, 2, 5)]
    return [x for x in every if low <= x <= high]


def draw(title, subtitle, ratios, path):
    """ratios: {model: {batch: ratio}}, drawn in that order; writes the file at path."""
    values = [r for by_batch in ratios.values() for r in by_batch.values()] + [1]
    low, high = min(values) / 1.15, max(values) * 1.15
    batches = sorted({batch for by_batch in ratios.values() for batch in by_batch})
    colours = dict(zip(batches, COLOURS[-len(batches):] if len(batches) < 5 else COLOURS * 9))
    height = TOP + LINE * len(ratios) + 40

    def x(ratio):
        share = math.log(ratio / low) / math.log(high / low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def text(at_x, at_y, words, anchor="start", extra=""):
        return (f'<text x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}" {extra}>'
                f"{html.escape(words)}</text>")

    bottom = TOP + LINE * len(ratios)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
             f'font-family="sans-serif" font-size="13" fill="{INK}">',
             f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
             text(12, 22, title, extra='font-size="16"'), text(12, 42, subtitle)]
    for tick in _ticks(low, high):
        is_one = tick == 1
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 6}" y2="{bottom}" '
                     f'stroke="{INK if is_one else GRID}"/>')
        parts.append(text(x(tick), bottom + 18, f"{tick:g}", "middle"))
    for row, (model, by_batch) in enumerate(ratios.items()):
        y = TOP + LINE * (row + 0.5)
        parts.append(text(LEFT - 10, y + 4, model, "end"))
        for batch, ratio in sorted(by_batch.items()):
            parts.append(f'<circle cx="{x(ratio):.1f}" cy="{y:.1f}" r="5" '
                         f'fill="{colours[batch]}"><title>{html.escape(model)}, batch {batch}: '
                         f"{ratio:.2f}</title></circle>")
    for i, batch in enumerate(batches):
        at = WIDTH - RIGHT - 90 * (len(batches) - i)
        parts.append(f'<circle cx="{at}" cy="56" r="5" fill="{colours[batch]}"/>')
        parts.append(text(at + 9, 60, f"batch {batch}"))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts + ["</svg>"]) + "\n")
