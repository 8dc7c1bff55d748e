#!/usr/bin/python3
"""Next words made a user's: a general network from Debian's fortunes, users from public-domain text in Debian's packages.

    bench_next_word.py OUT [--seeds N] [--epochs N]

Fetches the packages fortunes, fortunes-min, bible-kjv, bible-kjv-text and miscfiles into OUT without installing them, trains the
general network with each seed, unless OUT has it, and makes it the user's from the first 2,000 words of: Psalms, Leviticus, Genesis,
Proverbs, the constitution of the United States, and Debian's songs and poems, which are by many. Prints top-3 accuracy,
perplexity and keystrokes saved on the words behind, before and after, with seconds and joules, and the time of a
prediction."""
import argparse
import gzip
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

TOP = pathlib.Path(__file__).resolve().parents[1]
QUERN = os.environ.get("QUERN", str(TOP / "build/release/quern"))
PACKAGES = ("fortunes", "fortunes-min", "bible-kjv", "bible-kjv-text", "miscfiles")
BOOKS = {"psalms": "ps1:1-ps60:12", "leviticus": "lev1:1-lev20:12", "genesis": "gen1:1-gen20:18",
         "proverbs": "prov1:1-prov31:12"}


def fetch(out):
    """Packages unpacked, texts in out/general and out/users."""
    files, general, users = out / "files", out / "general", out / "users"
    for folder in (general, users):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=out, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    for package in out.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, files], check=True)
    for text in sorted((files / "usr/share/games/fortunes").iterdir()):
        if text.suffix or text.is_symlink() or text.name == "art":
            continue
        shutil.copy(text, users / "songs" if text.name == "songs-poems" else general / text.name)
    for name, verses in BOOKS.items():
        with open(users / name, "w") as target:
            subprocess.run(["../bin/bible", "-l", "200", verses], cwd=files / "usr/lib", stdout=target, check=True)
    with gzip.open(files / "usr/share/state/us-constitution.gz", "rb") as source:
        (users / "constitution").write_bytes(source.read())


def run(out, *options):
    done = subprocess.run([QUERN, *map(str, options), "--json"], cwd=out, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def personalise(out, seed, user):
    return run(out, "train", "--resume", f"general{seed}.safetensors", "--personalise", f"users/{user}", "--no-test",
               "--no-samples")[-1]


def predictions_ms(out):
    """Of drawing 400 words one by one, without starting the program."""
    times = []
    for length in (1, 401):
        begin = os.times().elapsed
        subprocess.run([QUERN, "sample", "--weights", "general1.safetensors", "--characters", str(length)], cwd=out,
                       check=True, stdout=subprocess.DEVNULL)
        times.append(os.times().elapsed - begin)
    return (times[1] - times[0]) / 400 * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    if not (o.out / "users").exists():
        fetch(o.out)
    for seed in range(1, o.seeds + 1):
        if (o.out / f"general{seed}.safetensors").exists():
            continue
        done = run(o.out, "train", "next-word", "--data", "text:general", "--epochs", o.epochs, "--seed", seed, "--save",
                   f"general{seed}.safetensors")[-1]
        print(f"general, seed {seed}: perplexity {done['test_perplexity']:.0f}, top-3 {100 * done['test_top3_accuracy']:.2f} %",
              file=sys.stderr)
    print(f"{'user':14} {'top-3 before':>12} {'after':>7} {'least gain':>10}  perplexity  keystrokes saved  {'s':>5} {'J':>6}")
    for user in sorted(path.name for path in (o.out / "users").iterdir()):
        events = [personalise(o.out, seed, user) for seed in range(1, o.seeds + 1)]
        mean = {key: statistics.mean(e[key] for e in events) if events[0][key] is not None else float("nan")
                for key in events[0] if key != "event"}
        gain = min(e["top3_accuracy_after"] - e["top3_accuracy_before"] for e in events)
        print(f"{user:14} {100 * mean['top3_accuracy_before']:12.2f} {100 * mean['top3_accuracy_after']:7.2f} {100 * gain:10.2f}"
              f"  {mean['perplexity_before']:4.0f} {mean['perplexity_after']:4.0f}   {100 * mean['keystrokes_saved_before']:6.2f}"
              f" {100 * mean['keystrokes_saved_after']:6.2f}     {mean['seconds']:5.1f} {mean['joules']:6.1f}")
    print(f"a prediction takes {predictions_ms(o.out):.2f} ms")


if __name__ == "__main__":
    main()
