"""Secure aggregation, where the run asks for it (secure = true): Flower's SecAgg+ (Bell et al. 2020), in which clients mask
their networks so that the server learns nothing but the weighted mean. Flower offers it for its older strategies, whose
messages differ."""
from flwr.app import Message
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import fitres_to_recorddict, recorddict_to_fitins
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAdam, FedAvg, FedAvgM, FedYogi
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

# Networks are sent as whole numbers: weights beyond the range are cut off.
CLIPPING_RANGE = 8.0


def mask(message, context, call_next):
    if not context.run_config["secure"]:
        return call_next(message, context)
    return secaggplus_mod(message, context, call_next)


def unpack(message):
    given = recorddict_to_fitins(message.content, keep_input=True)
    return parameters_to_ndarrays(given.parameters), int(given.config["server-round"])


def pack(message, arrays, n_samples):
    result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), n_samples, {})
    return Message(fitres_to_recorddict(result, keep_input=False), reply_to=message)


def make_strategy(config, n_clients, arrays, evaluate):
    chosen = {"fraction_fit": config["per-round"] / n_clients, "fraction_evaluate": 0.0,
              "min_fit_clients": config["per-round"], "min_available_clients": config["per-round"],
              "initial_parameters": ndarrays_to_parameters(arrays), "evaluate_fn": evaluate,
              "on_fit_config_fn": lambda round_number: {"server-round": round_number}}
    if config["server"] in ("adam", "yogi"):
        adaptive = FedAdam if config["server"] == "adam" else FedYogi
        return adaptive(**chosen, eta=config["server-lr"], beta_1=config["server-momentum"], beta_2=0.99, tau=1e-3)
    if config["server"] == "momentum":
        return FedAvgM(**chosen, server_learning_rate=config["server-lr"], server_momentum=config["server-momentum"])
    return FedAvg(**chosen)


def run(grid, context, config, arrays, n_clients, most_samples, evaluate):
    """All rounds; evaluate(round_number, arrays) gets the network after each."""

    def test(round_number, given, _):
        found = evaluate(round_number, given)
        return found["loss"], {"test_accuracy": found["accuracy"]}

    strategy = make_strategy(config, n_clients, arrays, test)
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=config["rounds"]), strategy=strategy)
    masked = SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=0.5, max_weight=float(most_samples),
                                clipping_range=CLIPPING_RANGE, timeout=config["timeout"])
    DefaultWorkflow(fit_workflow=masked)(grid, legacy)
