"""A client: trains the server's network on its own samples."""
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quern_app import task

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    config = context.run_config
    client = int(context.node_config["partition-id"])
    x, y = task.of_client(config["data"], client)
    model = task.make_model(config)
    task.set_weights(model, message.content["arrays"].to_numpy_ndarrays())
    batch = min(config["batch"], len(y))
    history = model.fit((x, y), epochs=config["local-epochs"], batch=batch, lr=config["lr"], momentum=config["momentum"],
                        optimizer="sgd", schedule="constant", warmup=0, weight_decay=0, test=False, meter=False,
                        verbose=False, threads=1, seed=task.seed(config, message, client))
    metrics = MetricRecord({"train_loss": float(history.losses[0]), "num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord(task.get_weights(model)), "metrics": metrics}), reply_to=message)
