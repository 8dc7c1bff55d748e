#!/usr/bin/python3
"""Compares training with TensorFlow's and MNN's newest wheels from PyPI, time and memory of all measured in
one interleaved run.

    bench/bench_others.py OUT --venv DIR [--models A,B] [--batches 4,16] [--quick] [--quern PROGRAM]

DIR is a scratch environment: made, with tensorflow-cpu and MNN, where it is not there yet. The models are the
suite's image classifiers, in the form that tests compare with PyTorch: described layer by layer here, where PyTorch
is, and built from that description there. A step is forward, loss, backward, and SGD with momentum, on random data.
TensorFlow runs as a compiled function (tensorflow) and through XLA (xla). MNN's wheel is asked whether it can train;
3.6.1 cannot. Every process is fresh, and reports its median step and its largest resident
memory. What a program cannot do is said and left out.

OUT.csv gets a line for each process, and a run that was stopped goes on from there; OUT.md gets the table: ratio is
the fastest other / quern, above 1 where quern is faster."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OTHERS = ("tensorflow", "xla", "mnn")
SUITE = ("lenet5", "alexnet", "vgg11", "vgg16", "resnet18", "resnet50", "squeezenet", "mobilenet-v1",
         "mobilenet-v2", "googlenet", "xception", "densenet40")
RATE, MOMENTUM, N_WARM = 0.001, 0.9, 3


# ---- a PyTorch network as lists: [kind, numbers or networks...] ----


def pair(value):
    return list(value) if isinstance(value, (tuple, list)) else [value, value]


def describe(layer):
    import reference
    from torch import nn

    if isinstance(layer, reference.Sum):
        side = describe(layer.side) if layer.side is not None else None
        return ["sum", describe(layer.main), side, layer.relu]
    if isinstance(layer, reference.Beside):
        return ["beside", *map(describe, layer)]
    if isinstance(layer, nn.Sequential):
        return ["chain", *map(describe, layer)]
    if isinstance(layer, nn.Conv2d):
        return ["conv", layer.in_channels, layer.out_channels, pair(layer.kernel_size), pair(layer.stride),
                pair(layer.padding), layer.groups, layer.bias is not None]
    if isinstance(layer, (nn.MaxPool2d, nn.AvgPool2d)):
        kind = "max" if isinstance(layer, nn.MaxPool2d) else "average"
        return [kind, pair(layer.kernel_size), pair(layer.stride), pair(layer.padding)]
    if isinstance(layer, nn.BatchNorm2d):
        return ["norm", layer.num_features, layer.eps]
    if isinstance(layer, nn.Linear):
        return ["linear", layer.in_features, layer.out_features]
    if isinstance(layer, nn.Dropout):
        return ["drop", layer.p]
    plain = {nn.ReLU: "relu", nn.ReLU6: "relu6", nn.Tanh: "tanh", nn.AdaptiveAvgPool2d: "mean",
             nn.Flatten: "flatten"}
    return [plain[type(layer)]]


# ---- TensorFlow ----


def keras_layer(keras, kind, *numbers):
    layers = keras.layers
    if kind == "linear":
        return layers.Dense(numbers[1])
    if kind == "norm":
        return layers.BatchNormalization(momentum=0.9, epsilon=numbers[1])
    if kind == "drop":
        return layers.Dropout(numbers[0])
    if kind in ("relu", "relu6", "tanh"):
        return layers.Activation(kind)
    return {"mean": layers.GlobalAveragePooling2D, "flatten": layers.Flatten}[kind]()


def keras_window(keras, x, kernel, pad, make):
    """A layer over windows: padding as its own word for it, if it has one."""
    if pad == [0, 0]:
        return make("valid")(x)
    if [2 * p + 1 for p in pad] == kernel:
        return make("same")(x)
    return make("valid")(keras.layers.ZeroPadding2D(tuple(pad))(x))


def keras_conv(keras, x, numbers):
    n_in, n_out, kernel, stride, pad, groups, bias = numbers
    if groups == n_in == n_out and groups > 1:
        def make(padding):
            return keras.layers.DepthwiseConv2D(kernel, stride, padding, use_bias=bias)
    else:
        def make(padding):
            return keras.layers.Conv2D(n_out, kernel, stride, padding, groups=groups, use_bias=bias)
    return keras_window(keras, x, kernel, pad, make)


def keras_net(keras, net, x):
    kind, *rest = net
    if kind == "chain":
        for layer in rest:
            x = keras_net(keras, layer, x)
        return x
    if kind == "beside":
        return keras.layers.Concatenate()([keras_net(keras, part, x) for part in rest])
    if kind == "sum":
        main, side, relu = rest
        y = keras.layers.Add()([keras_net(keras, main, x), keras_net(keras, side, x) if side else x])
        return keras.layers.Activation("relu")(y) if relu else y
    if kind == "conv":
        return keras_conv(keras, x, rest)
    if kind in ("max", "average"):
        kernel, stride, pad = rest
        layer = keras.layers.MaxPooling2D if kind == "max" else keras.layers.AveragePooling2D
        return keras_window(keras, x, kernel, pad, lambda padding: layer(kernel, stride, padding))
    return keras_layer(keras, kind, *rest)(x)


def tensorflow_step(net, shape, classes, batch, threads, is_xla):
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras = tf.keras
    start = keras.Input(tuple(shape), batch_size=batch)
    model = keras.Model(start, keras_net(keras, net, start))
    update = keras.optimizers.SGD(RATE, MOMENTUM)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x = tf.random.normal((batch, *shape))
    y = tf.random.uniform((batch,), 0, classes, tf.int32)
    update.build(model.trainable_variables)

    @tf.function(jit_compile=is_xla)
    def step():
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        update.apply_gradients(zip(gradients, model.trainable_variables))
        return value

    return lambda: float(step())


# ---- MNN ----


def check_mnn():
    """Says why MNN is left out: the optimiser of its wheel 3.6.1 refuses any step, which this looks at anew."""
    import MNN
    import MNN.expr as F

    class Net(MNN.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = MNN.nn.linear(4, 2)

        def forward(self, x):
            return self.layer(x)

    net = Net()
    net.train(True)
    y = net.forward(F.const([1.0, 2.0, 3.0, 4.0], [1, 4], F.NCHW, F.float))
    if not MNN.optim.SGD(net, RATE, MOMENTUM, 0).step(F.reduce_mean(y * y)):
        raise SystemExit("its optimiser refuses a step on the mean square of a linear layer: this wheel cannot train")
    raise SystemExit("this wheel can train; bench_others was written for one that could not")


def measure(program, path, batch, threads, seconds):
    """Runs in a process of its own, in the scratch environment; prints one JSON object."""
    with open(path, encoding="ascii") as file:
        made = json.load(file)
    arguments = made["net"], made["shape"], made["classes"], batch, threads
    if program == "mnn":
        check_mnn()
    step = tensorflow_step(*arguments, program == "xla")
    times, losses, start = [], [], None
    while len(times) < N_WARM + 3 or (time.monotonic() - start < seconds and len(times) < 500):
        if len(times) == N_WARM:
            start = time.monotonic()
        before = time.perf_counter()
        losses.append(step())
        times.append((time.perf_counter() - before) * 1e3)
    if losses[-1] == losses[0] or losses[-1] != losses[-1]:
        raise SystemExit(f"nothing was trained: the loss stayed {losses[0]}")
    print(json.dumps({"median_ms": statistics.median(times[N_WARM:]), "steps": len(times) - N_WARM,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


# ---- the run ----


def make_environment(folder, python):
    found = os.path.join(folder, "bin", "python")
    if not os.path.exists(found):
        subprocess.run([python, "-m", "venv", folder], check=True)
        subprocess.run([found, "-m", "pip", "install", "--quiet", "tensorflow-cpu", "MNN"], check=True)
    return found


def versions(python):
    code = ("from importlib.metadata import version as v; "
            "print('TensorFlow', v('tensorflow_cpu') + ', MNN', v('MNN'))")
    return subprocess.run([python, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def write_description(name, folder):
    import reference

    shape, classes = reference.forms(name)[0]
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="ascii") as file:
        json.dump({"net": describe(reference.build(name, shape, classes)), "shape": shape,
                   "classes": classes}, file)
    return path


def run_other(options, program, path, cell):
    command = [options.python_of_venv, os.path.abspath(__file__), "--run", program, path, str(cell[1]),
               str(cell[2]), str(options.seconds)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(cell[2]))
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode == 0 and lines:
        return json.loads(lines[-1])
    why = (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[-1]
    print(f"{cell[0]} batch {cell[1]}: {program} left out: {why[:200]}", file=sys.stderr, flush=True)
    return None


def run_cell(options, steps, cell, rows, folder):
    known = {steps.key(row) for row in rows}
    path = write_description(cell[0], folder)
    left_out = set()
    for process in range(options.processes):
        for program in (*OTHERS, "quern"):
            if (*cell, program, process) in known or program in left_out:
                continue
            if program == "quern":
                expected = [float(r["median_ms"]) for r in rows if steps.key(r)[:3] == cell]
                found = steps.run_quern(options, cell, min(expected, default=1000), folder)
            else:
                found = run_other(options, program, path, cell)
            if found is None:
                left_out.add(program)
                continue
            row = dict(zip(steps.FIELDS, (*cell, program, process, f"{found['median_ms']:.3f}",
                                          found["steps"], found["peak_bytes"],
                                          f"{os.getloadavg()[0]:.1f}")))
            rows.append(row)
            steps.append_row(options.out + ".csv", row)
            print(f"{cell[0]} batch {cell[1]}: {program} {row['median_ms']} ms", file=sys.stderr, flush=True)


def write_table(options, steps, rows, cells):
    lines = [f"Milliseconds of a training step (median of a process, fastest process); {options.threads} threads, "
             f"{versions(options.python_of_venv)}, {time.strftime('%Y-%m-%d')}.", "",
             f"| model | batch | quern | {' | '.join(OTHERS)} | ratio |", "|---|" + "---:|" * (3 + len(OTHERS))]
    ratios = []
    for cell in cells:
        best = {}
        for row in rows:
            if steps.key(row)[:3] == cell:
                ms = float(row["median_ms"])
                best[row["program"]] = min(ms, best.get(row["program"], ms))
        others = [best[program] for program in OTHERS if program in best]
        if "quern" not in best or not others:
            continue
        ratios.append(min(others) / best["quern"])
        shown = " | ".join(f"{best[program]:.2f}" if program in best else "" for program in OTHERS)
        lines.append(f"| {cell[0]} | {cell[1]} | {best['quern']:.2f} | {shown} | {ratios[-1]:.2f} |")
    lines += ["", f"Geometric mean of the ratios: {steps.mean_ratio(ratios):.2f}."]
    with open(options.out + ".md", "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="where OUT.csv and OUT.md go")
    parser.add_argument("--venv", required=True, help="folder of the scratch environment")
    parser.add_argument("--python", default=sys.executable, help="interpreter that makes it")
    parser.add_argument("--models", default=",".join(SUITE))
    parser.add_argument("--batches", default="4,16,32,64")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2, help="of each program")
    parser.add_argument("--seconds", type=float, default=2, help="measured in each process")
    parser.add_argument("--quick", action="store_true", help="half a second, one process of each")
    parser.add_argument("--quern", default=os.path.join(HERE, "..", "build", "release", "quern"))
    options = parser.parse_args()
    if options.quick:
        options.processes, options.seconds = 1, 0.5
    options.isa = None  # no limit
    return options


def main():
    if len(sys.argv) == 7 and sys.argv[1] == "--run":
        program, path, batch, threads, seconds = sys.argv[2:]
        measure(program, path, int(batch), int(threads), float(seconds))
        return
    sys.path.insert(0, HERE)
    import bench_steps as steps

    options = parse()
    options.python_of_venv = make_environment(options.venv, options.python)
    names = options.models.split(",")
    cells = [(name, int(batch), options.threads) for name in names for batch in options.batches.split(",")]
    rows = steps.read_rows(options.out + ".csv")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            steps.write_samples(name, folder)
        for cell in cells:
            run_cell(options, steps, cell, rows, folder)
            write_table(options, steps, rows, cells)


if __name__ == "__main__":
    main()
