"""Inputs of recordings: rows that are steps of time, of several people, made by rule."""
import math
import random


def _write(path, lines):
    path.write_text("\n".join(lines) + "\n")


def recordings(path, people=8, sessions=4, n=64, seed=1):
    """Two channels of each person, one of which swings fast or slowly by what the person does; the other is the person's own."""
    draw = random.Random(seed)
    lines = ["person,time,x,y,label"]
    for person in range(people):
        time = 0.0
        for session in range(sessions):
            label = ("walk", "run")[(session + person) % 2]
            for step in range(n):
                time += 0.02
                x = math.sin(step / (5 if label == "walk" else 2)) + draw.gauss(0, 0.3)
                lines.append(f"person{person},{time:.2f},{x:.3f},{person + draw.gauss(0, 0.1):.3f},{label}")
    _write(path, lines)


def leaking(path, people=12, n=30, seed=1):
    """Rows that tell who it is, and of a class that follows from that alone."""
    draw = random.Random(seed)
    lines = ["person,a,b,label"]
    for person in range(people):
        a, b, label = draw.gauss(0, 3), draw.gauss(0, 3), ("ill", "well")[person % 2]
        lines += [f"person{person},{a + draw.gauss(0, 0.2):.3f},{b + draw.gauss(0, 0.2):.3f},{label}" for _ in range(n)]
    _write(path, lines)


def walk(path, n=600, seed=1):
    """A smooth curve and its value a step later, with noise."""
    draw = random.Random(seed)
    values = [math.sin(i / 7) + draw.gauss(0, 0.1) for i in range(n + 1)]
    _write(path, ["value,next", *(f"{values[i]:.4f},{values[i + 1]:.4f}" for i in range(n))])


def noise_recording(path, n=4000, run=64, seed=1):
    """Noise, and labels of runs of rows that say nothing of it."""
    draw = random.Random(seed)
    labels = [draw.choice(("calm", "storm")) for _ in range(n // run + 1)]
    _write(path, ["x,y,label", *(f"{draw.gauss(0, 1):.3f},{draw.gauss(0, 1):.3f},{labels[i // run]}" for i in range(n))])
