/* Labels, losses and results of tasks that do not classify, in the order that each task's file
 * specifies. Networks of the zoo and of files share them, so both train to equal bits. */
#include "models/models.h"

/* The mean over labels of a softmax's cross entropy, and that of each label. Logits (..., C). */
static qn_value add_entropy(qn_graph *graph, qn_value logits, qn_value *losses, qn_value *flat) {
    const qn_shape shape = qn_graph_shape(graph, logits);
    const int64_t columns = shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
    *flat = shape.rank == 2 ? logits : qn_reshape(graph, "logits", logits, QN_SHAPE(-1, columns));
    const int64_t rows = qn_graph_shape(graph, *flat).dims[0];
    qn_value labels = qn_label(graph, "labels", QN_I32, QN_SHAPE(rows));
    *losses = qn_softmax_cross_entropy(graph, "losses", *flat, labels, 0);
    return qn_mean_valid(graph, "loss", *losses, labels);
}

qn_value qn_language_loss(qn_graph *graph, qn_value logits, const qn_value *states, int n) {
    qn_value losses, flat;
    qn_value loss = add_entropy(graph, logits, &losses, &flat);
    qn_result(graph, loss);
    for (int i = 0; i < n; i++)
        qn_result(graph, states[i]);
    if (!qn_graph_is_training(graph)) {
        qn_result(graph, losses);
        qn_result(graph, flat);
    }
    return loss;
}

qn_value qn_translation_loss(qn_graph *graph, qn_value logits) {
    return qn_language_loss(graph, logits, NULL, 0);
}

/* One side of the span, logits (N, T), to the mean of its losses. */
static qn_value add_side(qn_graph *graph, const char *name, qn_value logits) {
    qn_graph_enter(graph, "%s", name);
    qn_value label =
        qn_label(graph, "label", QN_I32, QN_SHAPE(qn_graph_shape(graph, logits).dims[0]));
    qn_value losses = qn_softmax_cross_entropy(graph, "losses", logits, label, 0);
    qn_value loss = qn_mean_valid(graph, "loss", losses, label);
    qn_graph_leave(graph);
    return loss;
}

qn_value qn_answering_loss(qn_graph *graph, const qn_value logits[2]) {
    qn_value start = add_side(graph, "start", logits[0]);
    qn_value end = add_side(graph, "end", logits[1]);
    qn_value loss = qn_scale(graph, "loss", qn_add(graph, "losses", start, end), 0.5);
    qn_result(graph, loss);
    qn_result(graph, logits[0]);
    qn_result(graph, logits[1]);
    return loss;
}

qn_value qn_control_loss(qn_graph *graph, qn_value values) {
    const int64_t n = qn_graph_shape(graph, values).dims[0];
    qn_value action = qn_label(graph, "action", QN_I32, QN_SHAPE(n));
    qn_value target = qn_input(graph, "target", QN_SHAPE(n));
    values = qn_gather(graph, "value", values, action);
    qn_value loss = qn_mean(graph, "loss", qn_smooth_l1(graph, "loss.samples", values, target));
    qn_result(graph, loss);
    qn_result(graph, values);
    return loss;
}

/* ---- generation ---- */

/* Values that the second phase needs of the first. */
enum { KEPT_FAKE, KEPT_OF_REAL, KEPT_OF_FAKE };

/* The judge's logits of images, called under a name. */
static qn_value judge(qn_graph *graph, const qn_adversaries *a, const char *call, qn_value images) {
    qn_graph_call(graph, "%s", call);
    qn_value logits = a->judge(graph, a->user, images);
    qn_graph_leave(graph);
    return logits;
}

/* Mean loss of judging all of them as the target says. */
static qn_value loss_of(qn_graph *graph, const char *name, qn_value logits, double target) {
    qn_graph_enter(graph, "%s", name);
    qn_value loss =
        qn_mean(graph, "mean", qn_binary_cross_entropy_with(graph, "entropy", logits, target));
    qn_graph_leave(graph);
    return loss;
}

static qn_value teach_judge(qn_graph *graph, const qn_adversaries *a, qn_shape images,
                            qn_shape noise, qn_value *kept) {
    qn_value real = qn_input(graph, "real", images);
    qn_value fake = a->generate(graph, a->user, qn_input(graph, "noise", noise));
    qn_value of_real = judge(graph, a, "real", real), of_fake = judge(graph, a, "fake", fake);
    kept[KEPT_FAKE] = fake;
    kept[KEPT_OF_REAL] = of_real;
    kept[KEPT_OF_FAKE] = of_fake;
    qn_value loss = qn_add(graph, "discriminator_loss", loss_of(graph, "real_loss", of_real, 1),
                           loss_of(graph, "fake_loss", of_fake, 0));
    qn_result(graph, loss);
    return loss;
}

static qn_value teach_generator(qn_graph *graph, const qn_adversaries *a, const qn_value *kept) {
    qn_value loss = loss_of(graph, "generator_loss", judge(graph, a, "again", kept[KEPT_FAKE]), 1);
    qn_result(graph, loss);
    qn_result(graph, kept[KEPT_OF_REAL]);
    qn_result(graph, kept[KEPT_OF_FAKE]);
    if (!qn_graph_is_training(graph))
        qn_result(graph, kept[KEPT_FAKE]);
    return loss;
}

qn_value qn_generation_loss(qn_graph *graph, const qn_adversaries *adversaries, qn_shape images,
                            qn_shape noise, int phase, qn_value *kept) {
    return phase == 0 ? teach_judge(graph, adversaries, images, noise, kept)
                      : teach_generator(graph, adversaries, kept);
}

qn_value qn_generation_bare(qn_graph *graph, const qn_adversaries *a, qn_shape images,
                            qn_shape noise) {
    qn_value real = qn_input(graph, "real", images);
    qn_result(graph, a->generate(graph, a->user, qn_input(graph, "noise", noise)));
    qn_value logits = a->judge(graph, a->user, real);
    qn_result(graph, logits);
    return logits;
}
