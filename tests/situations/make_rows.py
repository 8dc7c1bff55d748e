"""Inputs of tables: CSV files with headers, separators, gaps and kinds of columns, made by rule."""
import random


def _write(path, lines):
    path.write_text("\n".join(lines) + "\n")


def numbered_header(path, n=100, seed=1):
    """Columns that pandas has numbered: 0, 1, 2 of fractions and 3 of classes."""
    draw = random.Random(seed)
    lines = ["0,1,2,3"]
    for _ in range(n):
        row = [draw.gauss(0, 1) for _ in range(3)]
        lines.append(",".join([*(f"{x:.3f}" for x in row), str(int(row[0] > 0))]))
    _write(path, lines)


def prices(path, n=200, seed=1, column="price"):
    """A target in integers of six digits that follows from the inputs."""
    draw = random.Random(seed)
    lines = [f"size,rooms,{column}"]
    for _ in range(n):
        size, rooms = draw.uniform(30, 150), draw.randint(1, 5)
        lines.append(f"{size:.1f},{rooms},{int(3000 * size + 20000 * rooms + draw.gauss(0, 5000))}")
    _write(path, lines)


def semicolons(path, n=200, seed=1):
    """Two columns without a header: a number with a decimal comma, and its sign."""
    draw = random.Random(seed)
    lines = []
    for _ in range(n):
        x = draw.gauss(0, 1)
        lines.append(f"{x:.2f}".replace(".", ",") + f";{int(x > 0)}")
    _write(path, lines)


def indexed_noise(path, n=200, seed=1):
    """What pandas writes with its index, sorted by a class that is otherwise noise."""
    draw = random.Random(seed)
    lines = [",a,b,label"]
    lines += [f"{i},{draw.gauss(0, 1):.3f},{draw.gauss(0, 1):.3f},{'no' if i < n // 2 else 'yes'}" for i in range(n)]
    _write(path, lines)


def mixed(path, n=300, seed=1):
    """A class that follows from a category and a number with gaps; a date, a truth and free text besides."""
    draw = random.Random(seed)
    lines = ["day,colour,size,is_new,note,label"]
    for i in range(n):
        colour, size = draw.choice("red green blue".split()), draw.gauss(0, 1)
        label = "big" if size + 4 * (colour == "red") - 2 * (colour == "blue") > 0.5 else "small"
        day = f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}"
        gap = "" if i % 20 == 0 else f"{size:.3f}"
        lines.append(f"{day},{colour},{gap},{draw.choice(['true', 'false'])},note {i},{label}")
    _write(path, lines)


def three_targets(path, n=300, seed=1):
    """Three amounts of very different sizes that follow from two inputs."""
    draw = random.Random(seed)
    lines = ["a,b,height,weight,age"]
    for _ in range(n):
        a, b = draw.gauss(0, 1), draw.gauss(0, 1)
        lines.append(f"{a:.3f},{b:.3f},{1.7 + 0.01 * a:.5f},{70000 + 9000 * b:.0f},{40 + 5 * a - 5 * b:.2f}")
    _write(path, lines)


def labels(path, n=300, seed=1, listed=True):
    """Rows of which each has any of three labels, listed in a column (a|b) or in columns of 0 and 1."""
    draw = random.Random(seed)
    names = ["hot", "loud", "wet"]
    lines = ["x,y,z,tags" if listed else "x,y,z,hot,loud,wet"]
    for _ in range(n):
        row = [draw.gauss(0, 1) for _ in range(3)]
        has = [row[0] > 0.5, row[1] + row[0] > 0, row[2] > 1]
        shown = "|".join(name for name, h in zip(names, has) if h) if listed else ",".join(str(int(h)) for h in has)
        lines.append(",".join(f"{v:.3f}" for v in row) + "," + shown)
    _write(path, lines)
