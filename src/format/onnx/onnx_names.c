/* Names of values in an ONNX graph: each is given once, what is read is given by something, and
 * nodes come after what they read. A file in another order is sorted: depth first from the first
 * node on, so that what was in order stays in it. */
#include "base/status.h"
#include "format/onnx/onnx_parts.h"

#include <stdlib.h>
#include <string.h>

enum { NO_NODE = -1 };

/* A name and what gives it. */
typedef struct given {
    const char *name;
    int node; /* or NO_NODE: an input or an initialiser */
} given;

/* A node's place while nodes are sorted. */
typedef struct walk {
    int parent, next; /* who asked for it; its next input to look at */
    enum { UNSEEN = 0, OPEN, PLACED } state;
} walk;

typedef struct table {
    qn_onnx_reading *reading;
    const qn_onnx_model *model;
    qn_arena arena;
    given *givens; /* (n_givens), sorted */
    size_t n_givens;
    walk *walks; /* (n_nodes) */
    int *order;  /* (n_nodes) */
    int n_ordered;
    bool is_in_order;
} table;

static int compare_givens(const void *left, const void *right) {
    return strcmp(((const given *)left)->name, ((const given *)right)->name);
}

static const given *find(const table *t, const char *name) {
    const given wanted = {.name = name};
    return bsearch(&wanted, t->givens, t->n_givens, sizeof wanted, compare_givens);
}

static void list_givens(table *t) {
    const qn_onnx_model *m = t->model;
    size_t n = 0;
    for (int i = 0; i < m->n_initializers; i++)
        t->givens[n++] = (given){m->initializers[i].name, NO_NODE};
    for (int i = 0; i < m->n_inputs; i++)
        t->givens[n++] = (given){m->inputs[i].name, NO_NODE};
    for (int i = 0; i < m->n_nodes; i++) {
        for (int k = 0; k < m->nodes[i].n_outputs; k++) {
            if (m->nodes[i].outputs[k][0])
                t->givens[n++] = (given){m->nodes[i].outputs[k], i};
        }
    }
    t->n_givens = n;
    qsort(t->givens, n, sizeof *t->givens, compare_givens);
}

static qn_status check_givens(table *t) {
    for (size_t i = 0; i < t->n_givens; i++) {
        if (!t->givens[i].name[0])
            return QN_ONNX_FAIL(t->reading, QN_ERROR_FORMAT, "%s", "an input has no name");
        if (i > 0 && compare_givens(&t->givens[i - 1], &t->givens[i]) == 0)
            return QN_ONNX_FAIL(t->reading, QN_ERROR_FORMAT,
                                "'%.80s' is given twice: names of values must differ",
                                t->givens[i].name);
    }
    for (int i = 0; i < t->model->n_outputs; i++) {
        if (!find(t, t->model->outputs[i].name))
            return QN_ONNX_FAIL(t->reading, QN_ERROR_FORMAT,
                                "its output '%.80s' is given by nothing",
                                t->model->outputs[i].name);
    }
    return QN_OK;
}

static qn_status check_inputs(table *t) {
    char text[QN_ONNX_NODE_TEXT];
    t->is_in_order = true;
    for (int i = 0; i < t->model->n_nodes; i++) {
        const qn_onnx_node *node = &t->model->nodes[i];
        for (int k = 0; k < node->n_inputs; k++) {
            const given *from = node->inputs[k][0] ? find(t, node->inputs[k]) : NULL;
            if (node->inputs[k][0] && !from)
                return QN_ONNX_FAIL(t->reading, QN_ERROR_FORMAT,
                                    "%s reads '%.80s', which nothing gives",
                                    qn_onnx_node_text(node, i, text), node->inputs[k]);
            t->is_in_order = t->is_in_order && (!from || from->node < i);
        }
    }
    return QN_OK;
}

/* Places a node after all that it reads. */
static qn_status place(table *t, int node) {
    char text[QN_ONNX_NODE_TEXT];
    while (node != NO_NODE) {
        const qn_onnx_node *n = &t->model->nodes[node];
        walk *w = &t->walks[node];
        w->state = OPEN;
        if (w->next == n->n_inputs) {
            w->state = PLACED;
            t->order[t->n_ordered++] = node;
            node = w->parent;
            continue;
        }
        const char *name = n->inputs[w->next++];
        const given *from = name[0] ? find(t, name) : NULL;
        if (!from || from->node == NO_NODE || t->walks[from->node].state == PLACED)
            continue;
        if (t->walks[from->node].state == OPEN)
            return QN_ONNX_FAIL(t->reading, QN_ERROR_FORMAT,
                                "%s reads '%.80s', which depends on what it gives itself",
                                qn_onnx_node_text(n, node, text), name);
        t->walks[from->node].parent = node;
        node = from->node;
    }
    return QN_OK;
}

static qn_status sort_nodes(table *t, qn_onnx_model *model) {
    const size_t n = (size_t)model->n_nodes;
    qn_onnx_node *sorted;
    t->walks = qn_arena_allocate(&t->arena, n, sizeof *t->walks);
    t->order = qn_arena_allocate(&t->arena, n, sizeof *t->order);
    if (!t->walks || !t->order)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < model->n_nodes; i++) {
        t->walks[i].parent = t->walks[i].state == UNSEEN ? NO_NODE : t->walks[i].parent;
        if (t->walks[i].state == UNSEEN)
            QN_TRY(place(t, i));
    }
    QN_TRY(qn_onnx_place(t->reading, n, sizeof *sorted, &sorted));
    for (size_t i = 0; i < n; i++)
        sorted[i] = model->nodes[t->order[i]];
    model->nodes = sorted;
    return QN_OK;
}

static qn_status check(table *t, qn_onnx_model *model) {
    size_t n = (size_t)model->n_initializers + (size_t)model->n_inputs + 1;
    for (int i = 0; i < model->n_nodes; i++)
        n += (size_t)model->nodes[i].n_outputs;
    t->givens = qn_arena_allocate(&t->arena, n, sizeof *t->givens);
    if (!t->givens)
        return QN_ERROR_MEMORY;
    list_givens(t);
    QN_TRY(check_givens(t));
    QN_TRY(check_inputs(t));
    return t->is_in_order ? QN_OK : sort_nodes(t, model);
}

qn_status qn_onnx_check_names(qn_onnx_reading *reading, qn_onnx_model *model) {
    table t = {.reading = reading, .model = model};
    qn_arena_init(&t.arena, reading->file->allocator);
    const qn_status status = check(&t, model);
    qn_arena_deinit(&t.arena);
    return status;
}
