/* onnx_gradients MODEL FOLDER: builds an ONNX file in double over the inputs FOLDER/input_N.pb, and
 * writes to FOLDER/numbers.bin, as doubles, every output and then the gradient of the sum of the
 * outputs' mean squares for every trainable parameter, the real inputs among them, as "input.N". On
 * standard output a line each: name and extents. Channels stay where the file has them. */
#include "graph_run.h"

#include "base/status.h"
#include "onnx/builder.h"

#include <stdio.h>

enum { MOST = 64, PATH_BYTES = 1024 };

typedef struct program {
    qn_onnx_file *file;
    const qn_onnx_model *model;
    qn_arena kept;
    qn_graph *graph;
    qn_onnx_builder builder;
    const qn_onnx_constant *given[MOST]; /* by input of the model */
    qn_value inputs[MOST], outputs[MOST], sources[MOST], gradients[MOST];
    int n_sources;
} program;

static qn_status open_inputs(program *p, const char *folder) {
    for (int i = 0; i < p->model->n_inputs; i++) {
        const qn_onnx_tensor *tensor;
        qn_onnx_file *file;
        char path[PATH_BYTES], name[32];
        snprintf(path, sizeof path, "%s/input_%d.pb", folder, i);
        QN_TRY(qn_onnx_tensor_open(p->graph->allocator, path, &file, &tensor));
        p->given[i] = qn_onnx_read_constant(&p->kept, tensor);
        qn_onnx_file_close(file);
        if (!p->given[i])
            return QN_ERROR_MEMORY;
        snprintf(name, sizeof name, "input.%d", i);
        const qn_shape shape = p->given[i]->shape;
        p->inputs[i] = p->given[i]->reals ? qn_parameter(p->graph, name, shape,
                                                         (qn_initial){QN_INITIAL_ZERO, 0}, true)
                                          : qn_index_input(p->graph, name, shape);
        qn_onnx_find_item(&p->builder, p->model->inputs[i].name)->value = p->inputs[i];
    }
    return p->graph->status;
}

/* In the file's order, whatever it lies in. */
static qn_value plain(program *p, int output) {
    qn_onnx_item *item = qn_onnx_find_item(&p->builder, p->model->outputs[output].name);
    qn_onnx_call call = {.builder = &p->builder,
                         .graph = p->graph,
                         .name = "output",
                         .n_inputs = 1,
                         .inputs = &item};
    return qn_onnx_plain(&call, 0);
}

static void differentiate(program *p) {
    qn_value loss = QN_NO_VALUE;
    for (int i = 0; i < p->model->n_outputs; i++) {
        p->outputs[i] = plain(p, i);
        const qn_value square =
            qn_mean(p->graph, NULL, qn_multiply(p->graph, NULL, p->outputs[i], p->outputs[i]));
        loss = loss.id < 0 ? square : qn_add(p->graph, NULL, loss, square);
    }
    for (int v = 0; v < p->graph->n_values && p->graph->status == QN_OK; v++) {
        if (p->graph->values[v]->producer < 0 && p->graph->values[v]->trainable &&
            p->n_sources < MOST)
            p->sources[p->n_sources++] = (qn_value){v};
    }
    qn_autodiff_for(p->graph, loss, p->sources, p->n_sources, p->gradients);
}

static qn_status build(program *p, const char *path, const char *folder) {
    QN_TRY(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .real = QN_F64, .training = true},
        &p->graph));
    QN_TRY(qn_onnx_file_open(p->graph->allocator, path, false, &p->file));
    p->model = qn_onnx_file_model(p->file);
    if (p->model->n_inputs > MOST || p->model->n_outputs > MOST)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s: more than %d inputs or outputs", path, MOST);
    qn_arena_init(&p->kept, p->graph->allocator);
    QN_TRY(qn_onnx_builder_init(&p->builder, p->model, NULL, p->graph, &p->kept));
    QN_TRY(open_inputs(p, folder));
    QN_TRY(qn_onnx_builder_run(&p->builder));
    differentiate(p);
    return qn_graph_finish(p->graph);
}

/* What parameters of the file start with, and the inputs. */
static void fill(const program *p, const graph_run *run) {
    run_fill_given(run);
    for (int i = 0; i < p->model->n_inputs; i++) {
        const qn_onnx_constant *c = p->given[i];
        for (int64_t k = 0; k < c->n; k++)
            run_set(run, p->inputs[i], k, c->reals ? c->reals[k] : (double)c->whole[k]);
    }
}

static void put(FILE *file, const graph_run *run, const char *name, qn_value value) {
    const qn_shape shape = qn_graph_shape(run->graph, value);
    printf("%s", name);
    for (int i = 0; i < shape.rank; i++)
        printf(" %lld", (long long)shape.dims[i]);
    printf("\n");
    for (int64_t i = 0; i < qn_shape_count(shape); i++) {
        const double number = run_get(run, value, i);
        fwrite(&number, sizeof number, 1, file);
    }
}

int main(int n_arguments, char **arguments) {
    static program p;
    char path[PATH_BYTES];
    if (n_arguments != 3 || build(&p, arguments[1], arguments[2]) != QN_OK) {
        fprintf(stderr, "onnx_gradients MODEL FOLDER: %s\n", qn_error_message());
        return 1;
    }
    graph_run run = run_create(p.graph);
    snprintf(path, sizeof path, "%s/numbers.bin", arguments[2]);
    FILE *file = fopen(path, "wb");
    if (!file)
        return 1;
    fill(&p, &run);
    run_all(&run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    for (int i = 0; i < p.model->n_outputs; i++)
        put(file, &run, p.model->outputs[i].name, p.outputs[i]);
    for (int i = 0; i < p.n_sources; i++) {
        if (p.gradients[i].id >= 0)
            put(file, &run, p.graph->values[p.sources[i].id]->name, p.gradients[i]);
    }
    run_destroy(&run);
    qn_onnx_builder_deinit(&p.builder);
    qn_graph_destroy(p.graph);
    qn_onnx_file_close(p.file);
    qn_arena_deinit(&p.kept);
    return fclose(file) != 0;
}
