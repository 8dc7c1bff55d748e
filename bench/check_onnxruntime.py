#!/usr/bin/env python3
"""Runs exported networks of the zoo with ONNX Runtime and compares their outputs with quern's; of an ONNX file, with
those of the same network as quern exports it again.

usage: check_onnxruntime.py TOOLS [MODEL|FILE.onnx...]

TOOLS is the folder of the built tools (build/release/tests), beside which the command is. onnxruntime and numpy are installed from PyPI into a
folder that goes away again, unless they are there. Prints a table for people; fails where outputs (of classifiers
logits) differ by more than 1e-4 of their range.
"""
import os
import subprocess
import sys
import tempfile

BATCH, STEPS, LIMIT = 3, 5, 1e-4
CLASSIFIERS = """mlp lenet5 alexnet vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet
mobilenet-v1 mobilenet-v2 googlenet inception-v3 xception densenet40 densenet100""".split()

OTHERS = "char-cnn char-lstm seq2seq dcgan dqn bert-tiny bert-base".split()


def install(folder):
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", folder,
                        "onnxruntime", "numpy"], check=True)
        sys.path.insert(0, folder)


def open_session(path):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def compare_outputs(tools, name, folder):
    """Of a network that is no classifier: the largest difference of an output, the same as a share of that output's
    range, and the file's bytes."""
    import numpy as np
    subprocess.run([os.path.join(tools, "export_network"), name, str(BATCH), folder], check=True)
    path = os.path.join(folder, name)
    session, given = open_session(path + ".onnx"), {}
    for i, place in enumerate(session.get_inputs()):
        dtype = np.int32 if place.type == "tensor(int32)" else np.float32
        shape = [BATCH] + [d if isinstance(d, int) else -1 for d in place.shape[1:]]
        given[place.name] = np.fromfile(f"{path}.in.{i}", dtype=dtype).reshape(shape)
    worst, share = [], []
    for i, found in enumerate(session.run(None, given)):
        expected = np.fromfile(f"{path}.out.{i}", dtype=np.float32).reshape(found.shape)
        worst.append(np.abs(found - expected).max())
        share.append(worst[-1] / np.ptp(expected))
    size = os.path.getsize(path + ".onnx")
    os.remove(path + ".onnx")
    return np.max(worst), np.max(share), size  # not a number where one is none


def compare(tools, name, folder):
    """The same of a classifier after some steps of training."""
    import numpy as np
    subprocess.run([os.path.join(tools, "export_model"), name, str(BATCH), str(STEPS), folder], check=True)
    path = os.path.join(folder, name)
    session = open_session(path + ".onnx")
    place = session.get_inputs()[0]
    x, y = (np.fromfile(f"{path}.{end}", dtype=np.float32) for end in "xy")
    found = session.run(None, {place.name: x.reshape([BATCH] + place.shape[1:])})[0]
    worst, size = np.abs(found - y.reshape(found.shape)).max(), os.path.getsize(path + ".onnx")
    for end in (".onnx", ".x", ".y"):
        os.remove(path + end)
    return worst, worst / np.ptp(y), size


def compare_again(tools, name, folder):
    """The same of a file and what quern makes of it, for random inputs."""
    import numpy as np
    path, rng = os.path.join(folder, "again.onnx"), np.random.default_rng(1)
    subprocess.run([os.path.join(tools, os.pardir, "quern"), "export", name, "--out", path], check=True,
                   stdout=subprocess.DEVNULL)
    first, again = open_session(name), open_session(path)
    inputs = [rng.standard_normal([e if isinstance(e, int) else BATCH for e in place.shape]).astype(np.float32)
              for place in first.get_inputs()]
    expected, found = (session.run(None, {p.name: x for p, x in zip(session.get_inputs(), inputs)})[0]
                       for session in (first, again))
    worst, size = np.abs(found - expected).max(), os.path.getsize(path)
    os.remove(path)
    return worst, worst / np.ptp(expected), size


def main():
    tools, names = sys.argv[1], sys.argv[2:] or CLASSIFIERS + OTHERS
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        install(os.path.join(folder, "packages"))
        import onnxruntime
        print(f"ONNX Runtime {onnxruntime.__version__}, batches of {BATCH}, after {STEPS} steps of training")
        print(f"{'model':14s} {'file MB':>9s} {'difference':>11s} {'of the range':>13s}")
        for name in names:
            kind = compare_again if name.endswith(".onnx") else compare_outputs if name in OTHERS else compare
            worst, share, size = kind(tools, name, folder)
            print(f"{os.path.basename(name):14s} {size / 1e6:9.1f} {worst:11.2g} {share:13.2g}", flush=True)
            if not share < LIMIT:
                failed.append(name)
    print("all agree" if not failed else f"differ by more than {LIMIT} of the range: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
