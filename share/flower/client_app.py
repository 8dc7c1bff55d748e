"""A client: trains the server's network on its own samples."""
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod

from quern_app import secure, task


def noise(message, context, call_next):
    """Local differential privacy, where the run asks for it: the change is clipped and noise added before it leaves."""
    config = context.run_config
    if config["dp-clip"] == 0 or config["dp-where"] != "client":
        return call_next(message, context)
    epsilon, delta = task.gaussian_epsilon(config["dp-noise"]), task.GAUSSIAN_DELTA
    return LocalDpMod(config["dp-clip"], config["dp-clip"], epsilon, delta)(message, context, call_next)


app = ClientApp(mods=[secure.mask, noise])


@app.train()
def train(message: Message, context: Context) -> Message:
    config = task.settings(context.run_config)
    client = int(context.node_config["partition-id"])
    x, y = task.of_client(config["data"], client)
    model = task.make_model(config)
    given, round_number = secure.unpack(message) if config["secure"] else task.unpack(message)
    task.set_weights(model, given, config)
    own = task.personal_names(model, config)
    for name, array in context.state["personal"].items() if "personal" in context.state else ():
        model.parameters()[name][...] = array.numpy()
    batch = min(config["batch"], len(y))
    history = model.fit((x, y), epochs=config["local-epochs"], batch=batch, lr=config["lr"], momentum=config["momentum"],
                        optimizer="sgd", schedule="constant", warmup=0, weight_decay=0, test=False, meter=False,
                        verbose=False, threads=1, seed=task.seed(config, round_number, client), **task.how(config))
    if own:
        context.state["personal"] = ArrayRecord({name: Array(np.array(model.parameters()[name])) for name in own})
    arrays = task.shared(model, given, own, config)
    if config["secure"]:
        return secure.pack(message, arrays, len(y))
    weight = 1 if config["dp-clip"] > 0 else len(y)  # privacy is of clients that weigh the same
    metrics = MetricRecord({"train_loss": float(history.losses[0]), "num-examples": weight})
    return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)
