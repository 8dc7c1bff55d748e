"""The server: a strategy of Flower, and tests on the test samples."""
import json

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAdam, FedAvg, FedAvgM, FedYogi

from quern_app import secure, task

app = ServerApp()


def add_privacy(strategy, config):
    """Central differential privacy: the server clips what clients send and adds noise to the mean."""
    if config["dp-clip"] == 0 or config["dp-where"] != "server":
        return strategy
    return DifferentialPrivacyServerSideFixedClipping(strategy, config["dp-noise"], config["dp-clip"],
                                                      config["per-round"])


def make_strategy(config, n_clients):
    chosen = {"fraction_train": config["per-round"] / n_clients, "fraction_evaluate": 0.0,
              "min_train_nodes": config["per-round"], "min_available_nodes": config["per-round"]}
    if config["server"] in ("adam", "yogi"):
        adaptive = FedAdam if config["server"] == "adam" else FedYogi
        return adaptive(**chosen, eta=config["server-lr"], beta_1=config["server-momentum"], beta_2=0.99, tau=1e-3)
    if config["server"] == "momentum":
        return FedAvgM(**chosen, server_learning_rate=config["server-lr"], server_momentum=config["server-momentum"])
    return FedAvg(**chosen)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = task.settings(context.run_config)
    task.wait_for_nodes(grid, config)
    model = task.make_model(config)
    x, y, facts = task.samples(config["data"], "test")
    x = task.prepare(x, facts)

    def evaluate(round_number, arrays):
        task.set_weights(model, arrays, config)
        found = model.evaluate((x, y))
        if config["dp-clip"] > 0 and round_number > 0:
            found["epsilon"] = task.epsilon(config["dp-noise"], round_number, config["dp-delta"])
            found["delta"], found["privacy_of"] = config["dp-delta"], "clients"
        print(json.dumps({"round": round_number, **found}), flush=True)
        return found

    def evaluate_record(round_number, arrays):
        found = evaluate(round_number, arrays.to_numpy_ndarrays())
        return MetricRecord({"test_loss": found["loss"], "test_accuracy": found["accuracy"]})

    if config["secure"]:
        most = int(np.diff(task.firsts(config["data"])).max())
        secure.run(grid, context, config, task.get_weights(model, config), facts["clients"], most, evaluate)
    else:
        strategy = add_privacy(make_strategy(config, facts["clients"]), config)
        result = strategy.start(grid=grid, initial_arrays=ArrayRecord(task.get_weights(model, config)),
                                num_rounds=config["rounds"], timeout=config["timeout"], evaluate_fn=evaluate_record)
        task.set_weights(model, result.arrays.to_numpy_ndarrays(), config)
    model.save(config["save"])
