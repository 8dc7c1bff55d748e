"""The server: a strategy of Flower, and tests on the test samples."""
import json

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM

from quern_app import task

app = ServerApp()


def make_strategy(config, n_clients):
    chosen = {"fraction_train": config["per-round"] / n_clients, "fraction_evaluate": 0.0,
              "min_train_nodes": config["per-round"], "min_available_nodes": config["per-round"]}
    if config["server"] == "adam":
        return FedAdam(**chosen, eta=config["server-lr"], beta_1=config["server-momentum"], beta_2=0.99, tau=1e-3)
    if config["server"] == "momentum":
        return FedAvgM(**chosen, server_learning_rate=config["server-lr"], server_momentum=config["server-momentum"])
    return FedAvg(**chosen)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    model = task.make_model(config)
    x, y, facts = task.samples(config["data"], "test")
    x = task.prepare(x, facts)

    def evaluate(round_number, arrays):
        task.set_weights(model, arrays.to_numpy_ndarrays())
        found = model.evaluate((x, y))
        print(json.dumps({"round": round_number, **found}), flush=True)
        return MetricRecord({"test_loss": found["loss"], "test_accuracy": found["accuracy"]})

    strategy = make_strategy(config, facts["clients"])
    result = strategy.start(grid=grid, initial_arrays=ArrayRecord(task.get_weights(model)),
                            num_rounds=config["rounds"], evaluate_fn=evaluate)
    task.set_weights(model, result.arrays.to_numpy_ndarrays())
    model.save(config["save"])
