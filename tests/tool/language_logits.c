/* Prints the logits that a language model gives for tokens: language_logits FILE|FOLDER TOKEN...,
 * a line for each token with a number for each of the vocabulary. */
#include "models/language/model.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_TOKENS = 256 };

typedef struct network {
    const qn_model *model;
    qn_network_sizes sizes;
} network;

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const network *n = user;
    return n->model->network(graph, n->model->user, &n->sizes, phase, kept);
}

static qn_status run(qn_language_model *m, const int32_t *tokens, int64_t n) {
    network net = {&m->model, {.batch = 1, .length = n, .is_bare = true}};
    const qn_engine_options options = {QN_OPTIONS_INIT(qn_engine_options), .n_threads = 1};
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .user = &net,
                                        .build = build};
    qn_engine *engine;
    qn_status status = qn_engine_create(&options, &program, 1, &engine);
    if (status != QN_OK)
        return status;
    status = qn_language_model_fill(m, engine);
    if (status == QN_OK)
        status = qn_engine_run(engine, 0, (const void *[]){tokens});
    if (status == QN_OK) {
        const float *logits = qn_engine_result(engine, 0, 0);
        const qn_shape shape = qn_engine_result_shape(engine, 0, 0);
        for (int64_t i = 0; i < qn_shape_count(shape); i++)
            printf("%.9g%c", (double)logits[i], (i + 1) % shape.dims[1] ? ' ' : '\n');
    }
    qn_engine_destroy(engine);
    return status;
}

int main(int argc, char **argv) {
    int32_t tokens[MOST_TOKENS];
    qn_language_model *model;
    if (argc < 3 || argc - 2 > MOST_TOKENS)
        return 2;
    for (int i = 2; i < argc; i++)
        tokens[i - 2] = (int32_t)strtol(argv[i], NULL, 10);
    qn_status status = qn_language_model_open(NULL, argv[1], &model);
    if (status == QN_OK) {
        status = run(model, tokens, argc - 2);
        qn_language_model_close(model);
    }
    if (status != QN_OK)
        fprintf(stderr, "%s\n", qn_error_message());
    return status != QN_OK;
}
