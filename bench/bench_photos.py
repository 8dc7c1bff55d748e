#!/usr/bin/python3
"""Trains on few pictures: the plain command beside settings chosen by hand, or beside a trained start.

    bench/bench_photos.py OUT --hand [--models A,B] [--seeds 1,2,3]
    bench/bench_photos.py OUT --starts random,FILE... [--models A] [--sets crops,emoji,made] [--photos FOLDER]
                          [--counts 5,20,100] [--seeds 1,2,3]

--hand trains on 252 pictures of 7 classes (small_photos.py) with each row of HAND, and tests on 700 others.
--starts trains a model (one of --models) from random weights and from those of files, in each set with so many
pictures a class:

    crops  crops of the photographs in FOLDER, a class each: those of the left three fifths train, those of the right
           third test (scikit-image's and scikit-learn's wheels and Debian's mate-backgrounds have some)
    emoji  the eight largest groups of emoji (Debian's fonts-noto-color-emoji, unicode-data), 30 of each for testing
    made   small_photos.py's, 100 of each for testing

The pictures that train are drawn by seed, those that test are the same for all. Every run has one thread, so that its
weights do not depend on the machine's load. OUT.csv gets a line for each run, and a bench that was stopped goes on from
there; OUT.md gets the table. Needs python3-pil."""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

HERE = os.path.dirname(os.path.abspath(__file__))
EMOJI_LIST, EMOJI_FONT = "/usr/share/unicode/emoji/emoji-test.txt", "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
FIELDS = ("set", "model", "way", "count", "seed", "accuracy", "steps")
CROP, N_CROP_TESTS, N_EMOJI_TESTS, N_MADE_TESTS, MOST = 96, 40, 30, 100, 100
# What a user who knows the models would try beside the plain command.
HAND = {
    "lenet5": ("--lr 0.005 --batch 16 --steps 2000", "--lr 0.002 --batch 16 --steps 2000",
               "--lr 0.02 --batch 16 --steps 2000", "--lr 0.01 --batch 32 --steps 2000",
               "--optimizer adam --lr 0.001 --batch 16 --steps 2000", "--lr 0.0025 --batch 16",
               "--optimizer adam --lr 0.0005 --batch 16 --steps 2000 --label-smoothing 0.1"),
    "squeezenet": ("--lr 0.0005 --batch 32 --steps 1500", "--lr 0.0005 --batch 16 --steps 2000",
                   "--lr 0.001 --batch 32 --steps 1500", "--steps 1000"),
}
INPUTS = {"lenet5": "32x32x3"}


# ---- the sets: {class: (pictures to train on, pictures to test on)}, by seed ----


def crops_of(photo, draw, count, begin, end):
    """Squares of a third to two thirds of the height, whose columns lie between two parts of the width."""
    width, height = photo.size
    for _ in range(count):
        side = int(min(draw.uniform(0.33, 0.66) * height, (end - begin) * width))
        x = int(draw.uniform(begin * width, end * width - side))
        y = int(draw.uniform(0, height - side))
        yield photo.crop((x, y, x + side, y + side)).resize((CROP, CROP))


def open_crops(options):
    from PIL import Image

    paths = sorted(p for p in pathlib.Path(options.photos).iterdir() if p.suffix in (".jpg", ".png"))
    photos = {path.stem: Image.open(path).convert("RGB") for path in paths}
    for photo in photos.values():
        photo.thumbnail((1200, 900))
    tests = {name: list(crops_of(photo, np.random.default_rng(9), N_CROP_TESTS, 0.65, 1))
             for name, photo in photos.items()}

    def take(seed):
        draw = np.random.default_rng([seed, 1])
        return {name: (list(crops_of(photo, draw, MOST, 0, 0.6)), tests[name]) for name, photo in photos.items()}

    return take


def emoji_groups():
    """Names and texts of the groups that are large enough, without those that differ in skin alone."""
    groups, group = {}, None
    with open(EMOJI_LIST, encoding="utf-8") as file:
        for line in file:
            if line.startswith("# group:"):
                group = line.split(":", 1)[1].strip()
            elif "; fully-qualified" in line:
                text = "".join(chr(int(code, 16)) for code in line.split(";")[0].split())
                if not any("\U0001f3fb" <= c <= "\U0001f3ff" for c in text):
                    groups.setdefault(group, []).append(text)
    return {name: texts for name, texts in groups.items() if len(texts) >= MOST + N_EMOJI_TESTS}


def draw_emoji(font, text):
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (136, 128), "white")
    ImageDraw.Draw(picture).text((0, 0), text, font=font, embedded_color=True)
    return picture.resize((CROP, CROP))


def open_emoji(_options):
    from PIL import ImageFont

    font = ImageFont.truetype(EMOJI_FONT, 109)
    pictures = {}
    for name, texts in emoji_groups().items():
        order = np.random.default_rng(9).permutation(len(texts))
        pictures[name.replace(" & ", "-")] = [draw_emoji(font, texts[i]) for i in order]

    def take(seed):
        draw = np.random.default_rng([seed, 1])
        return {name: ([all_of[N_EMOJI_TESTS + i] for i in draw.permutation(len(all_of) - N_EMOJI_TESTS)[:MOST]],
                       all_of[:N_EMOJI_TESTS]) for name, all_of in pictures.items()}

    return take


def open_made(_options):
    import small_photos
    from PIL import Image

    def some(seed, count):
        draw = np.random.default_rng(seed)
        return {kind: [Image.fromarray(small_photos.picture(draw, kind)) for _ in range(count)]
                for kind in small_photos.CLASSES}

    tests = some(1000, N_MADE_TESTS)

    def take(seed):
        return {kind: (pictures, tests[kind]) for kind, pictures in some(seed, MOST).items()}

    return take


SETS = {"crops": open_crops, "emoji": open_emoji, "made": open_made}


def write_set(folder, pictures, count):
    for name, (train, test) in pictures.items():
        for part, some in (("train", train[:count]), ("test", test)):
            path = pathlib.Path(folder, part, name)
            path.mkdir(parents=True)
            for i, picture in enumerate(some):
                picture.save(path / f"{i:04d}.png")


# ---- the runs ----


def run(options, folder, *words):
    environment = dict(os.environ, XDG_CACHE_HOME=folder + "/cache")
    result = subprocess.run([options.quern, *words, "--threads", "1", "--json"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=False, text=True, env=environment)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


def train(options, folder, model, seed, words):
    """Accuracy on the pictures that test, and steps. They are looked at once, after training."""
    made = folder + "/made.safetensors"
    size = ["--input", INPUTS[model]] if model in INPUTS else []
    done = run(options, folder, "train", model, "--data", f"images:{folder}/set", "--seed", str(seed), "--no-test",
               "--save", made, *size, *words)
    return run(options, folder, "evaluate", "--weights", made)["accuracy"], done["steps"]


def plan(options):
    """(set, model, way, count, seed, words) of every run."""
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.hand:
        return [("made", model, words or "plain", 36, seed, words.split()) for seed in seeds
                for model in options.models.split(",") for words in ("", *HAND.get(model, ()))]
    return [(name, options.models, os.path.basename(start).removesuffix(".safetensors"), int(count), seed,
             ["--load", start, "--head", "data"] if start != "random" else [])
            for seed in seeds for count in options.counts.split(",") for name in options.sets.split(",")
            for start in options.starts.split(",")]


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def append_row(path, row):
    with open(path, "a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow(row)


def write_table(options, rows):
    lines = ["| pictures | a class | model | start or settings | accuracy by seed, % | mean |", "|---|---:|---|---|---|---:|"]
    groups = {}
    for row in rows:
        groups.setdefault((row["set"], int(row["count"]), row["model"], row["way"]), []).append(row)
    for (name, count, model, way), found in sorted(groups.items()):
        values = [100 * float(row["accuracy"]) for row in sorted(found, key=lambda row: int(row["seed"]))]
        lines.append(f"| {name} | {count} | {model} | {way} | {', '.join(f'{v:.1f}' for v in values)} | "
                     f"{statistics.mean(values):.1f} |")
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="where OUT.csv and OUT.md go")
    parser.add_argument("--hand", action="store_true", help="the plain command beside settings chosen by hand")
    parser.add_argument("--starts", help="random, and files of weights")
    parser.add_argument("--models", help="of --hand: all of HAND unless said; of --starts one, squeezenet unless said")
    parser.add_argument("--sets", default="crops,emoji")
    parser.add_argument("--photos", help="folder of photographs, for crops")
    parser.add_argument("--counts", default="5,20,100")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--quern", default=os.path.join(HERE, "..", "build", "release", "quern"))
    options = parser.parse_args()
    if options.hand == bool(options.starts):
        parser.error("one of --hand and --starts")
    if options.starts and "crops" in options.sets.split(",") and not options.photos:
        parser.error("the set crops needs --photos FOLDER")
    options.models = options.models or (",".join(HAND) if options.hand else "squeezenet")
    if options.starts and "," in options.models:
        parser.error("--starts compares weights of one model")
    return options


def main():
    sys.path.insert(0, HERE)
    options = parse()
    rows = read_rows(options.out + ".csv")
    known = {tuple(row[field] for field in FIELDS[:5]) for row in rows}
    opened = {}
    for name, model, way, count, seed, words in plan(options):
        if (name, model, way, str(count), str(seed)) in known:
            continue
        if name not in opened:
            opened[name] = SETS[name](options)
        with tempfile.TemporaryDirectory() as folder:
            write_set(folder + "/set", opened[name](seed), count)
            accuracy, n_steps = train(options, folder, model, seed, words)
        row = dict(zip(FIELDS, (name, model, way, count, seed, f"{accuracy:.4f}", n_steps)))
        rows.append(row)
        append_row(options.out + ".csv", row)
        print(*row.values(), file=sys.stderr, flush=True)
        write_table(options, rows)


if __name__ == "__main__":
    main()
