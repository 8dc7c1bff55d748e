#!/usr/bin/python3
"""Federated training under Flower: clients that train with quern beside the same app with PyTorch clients, and a
deployment on this machine, one of whose devices is killed.

    bench_flower.py simulate ENVIRONMENT OUT [--clients N] [--per-round N] [--rounds N] [--seeds N]
    bench_flower.py deploy ENVIRONMENT OUT [--rounds N]

ENVIRONMENT is a virtual environment with flwr[simulation] 1.41, quern's wheel (script/wheel) and, for simulate, torch;
OUT a folder for the apps and what they print. Both apps have one partition, settings and initial weights; runs of both
take turns. Prints a table: test accuracy, seconds a round, and seconds of the clients' training alone. LeNet-5 on
Fashion-MNIST, Dir(3 p) for each client, as `quern federate app` writes it."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
QUERN = os.environ.get("QUERN", str(TOP / "build/release/quern"))


def environment(o):
    """Flower's programs, which keep what they know in a folder of ours, with nothing installed anew."""
    bin_folder = pathlib.Path(o.environment).resolve() / "bin"
    return os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "FLWR_HOME": str(o.out.resolve() / "home")}


def make_app(o, name, seed, clients, per_round):
    folder = o.out / name
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([QUERN, "federate", "app", "--model", "lenet5", "--data", "fashion-mnist", "--clients", str(clients),
                    "--per-round", str(per_round), "--rounds", str(o.rounds), "--partition", "hsu:3",
                    "--seed", str(seed), "--wheel", str(wheel()), "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


def wheel():
    found = sorted((TOP / "build/wheels").glob("quern-*x86_64.whl"))
    return found[-1] if found else sys.exit("bench_flower: build the wheel first: script/wheel")


def use_torch(folder):
    """PyTorch in quern's place; it begins with quern's initial weights."""
    shutil.copy(TOP / "bench/flower_torch.py", folder / "quern_app/flower_torch.py")
    task = folder / "quern_app/task.py"
    task.write_text(task.read_text().replace("import quern\n", "from quern_app import flower_torch as quern\n"))
    server = folder / "quern_app/server_app.py"
    begin = "    task.set_weights(model, task.get_weights(__import__(\"quern\").Model(config[\"model\"], classes=10), config), config)\n"
    text = server.read_text().replace("    x, y, facts = ", begin + "    x, y, facts = ", 1)
    server.write_text(text)
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace('"numpy>=1.24"', '"numpy>=1.24", "torch"'))


def run_app(o, folder, clients):
    """Accuracy after each round, and seconds a round."""
    begin = time.monotonic()
    done = subprocess.run(["flwr", "run", ".", "--stream", "--federation-config", f"num-supernodes={clients}"], cwd=folder,
                          env=environment(o), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    (o.out / f"{folder.name}.log").write_text(done.stdout)
    rounds = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"round"')]
    took = re.search(r"finished in ([\d.]+)s", done.stdout)
    if not took or len(rounds) != o.rounds + 1:
        sys.exit(f"bench_flower: {folder.name} failed; see {o.out}/{folder.name}.log")
    return {"accuracy": rounds[-1]["accuracy"], "round": float(took[1]) / o.rounds, "all": time.monotonic() - begin}


def train_alone(o, folder):
    """Seconds that ten clients of the app train in one process, without Flower."""
    code = ("import sys, time, tomllib; sys.path.insert(0, '.')\n"
            "from quern_app import task\n"
            "c = tomllib.load(open('pyproject.toml', 'rb'))['tool']['flwr']['app']['config']\n"
            "def turn(i):\n"
            "    x, y = task.of_client(c['data'], i); m = task.make_model(c)\n"
            "    m.fit((x, y), epochs=c['local-epochs'], batch=c['batch'], lr=c['lr'], momentum=c['momentum'], optimizer='sgd',\n"
            "          schedule='constant', warmup=0, weight_decay=0, test=False, meter=False, verbose=False, threads=1, seed=i)\n"
            "turn(0); begin = time.perf_counter(); [turn(i) for i in range(10)]; print(time.perf_counter() - begin)\n")
    done = subprocess.run(["python", "-c", code], cwd=folder, env=environment(o), check=True, capture_output=True, text=True)
    return float(done.stdout)


def simulate(o):
    rows = {"quern": [], "PyTorch": []}
    for seed in range(1, o.seeds + 1):
        for name, kept in rows.items():
            folder = make_app(o, f"{name.lower()}-{seed}", seed, o.clients, o.per_round)
            if name == "PyTorch":
                use_torch(folder)
            kept.append(run_app(o, folder, o.clients) | {"alone": statistics.median(train_alone(o, folder) for _ in range(3))})
            print(f"seed {seed}, {name}: {kept[-1]}", flush=True)
    print("| clients | test accuracy | seconds a round | ten clients without Flower, seconds |\n|---|---|---|---|")
    for name, kept in rows.items():
        means = {key: statistics.mean(row[key] for row in kept) for key in kept[0]}
        accuracies = ", ".join(f"{100 * row['accuracy']:.2f}" for row in kept)
        print(f"| {name} | {accuracies}; {100 * means['accuracy']:.2f} % | {means['round']:.2f} | {means['alone']:.2f} |")


def wait_for_port(port):
    for _ in range(300):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"bench_flower: nothing answers at port {port}")


def deploy(o):
    """One SuperLink and four SuperNodes on loopback; a SuperNode is killed after the second round."""
    folder, env = make_app(o, "deployed", 1, 4, 3), environment(o)
    home = pathlib.Path(env["FLWR_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text('[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:8000"\ninsecure = true\n')
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace("timeout = 3600.0", "timeout = 20.0"))

    def start(name, *words):
        with open(o.out / f"{name}.log", "w") as log:
            return subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)

    programs = [start("superlink", "flower-superlink", "--insecure")]
    try:
        wait_for_port(8000)
        for i in range(4):
            programs.append(start(f"supernode{i}", "flower-supernode", "--insecure", "--superlink", "127.0.0.1:8000", "--port", str(9200 + i),
                                  "--node-config", f"partition-id={i} num-partitions=4"))
        run = subprocess.Popen(["flwr", "run", ".", "here", "--stream"], cwd=folder, env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        rounds, log = [], []
        for line in run.stdout:
            log.append(line)
            if line.startswith('{"round"'):
                rounds.append(json.loads(line))
                print(line, end="", flush=True)
                if rounds[-1]["round"] == 2:
                    os.killpg(programs[1].pid, signal.SIGKILL)
                    print("a SuperNode was killed", flush=True)
        (o.out / "deployed.log").write_text("".join(log))
        print(f"{len(rounds) - 1} of {o.rounds} rounds, accuracy {100 * rounds[-1]['accuracy']:.2f} %" if rounds else
              f"no round; see {o.out}/deployed.log")
    finally:
        for program in programs:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGTERM)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["simulate", "deploy"])
    parser.add_argument("environment")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--per-round", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1)
    o = parser.parse_args()
    o.out = o.out.resolve()
    o.out.mkdir(parents=True, exist_ok=True)
    {"simulate": simulate, "deploy": deploy}[o.action](o)


if __name__ == "__main__":
    main()
