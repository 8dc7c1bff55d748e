/* From a sequence to a graph and its plan; see budget.h. Makes no decision: the sequence says what
 * is recomputed, and when. */
#include "base/status.h"
#include "plan/budget/budget.h"

static qn_status copy_sequence(const qn_sequence *from, qn_sequence *to) {
    for (size_t i = 0; i < from->n; i++)
        QN_TRY(qn_sequence_add(to, from->items[i].action, from->items[i].id));
    return QN_OK;
}

/* Whether a node of the made graph is a later run of one that ran before: its first output is no
 * first copy. */
static bool runs_again(const qn_budget_plan *made, int node) {
    const qn_value output = made->graph->nodes[node]->outputs[0];
    return made->origins.item_of[node] >= 0 && made->origins.node_of[node] >= 0 &&
           made->origins.first[made->origins.value_of[output.id]].id != output.id;
}

static void count(qn_budget_plan *made) {
    for (int n = 0; n < made->graph->n_nodes; n++) {
        const qn_node *node = made->graph->nodes[n];
        if (!runs_again(made, n))
            continue;
        made->n_again++;
        for (int i = 0; i < node->n_outputs; i++)
            made->again_bytes += qn_tensor_bytes(qn_graph_tensor(made->graph, node->outputs[i]));
    }
    for (size_t i = 0; i < made->sequence.n; i++) {
        const qn_item *item = &made->sequence.items[i];
        if (item->action == QN_ACTION_STORE)
            made->swapped_bytes +=
                qn_tensor_bytes(qn_graph_tensor(made->graph, made->origins.first[item->id]));
    }
}

static qn_status make(qn_budget_plan *made, const qn_allocator *allocator, const qn_graph *graph,
                      const qn_machine *machine, const qn_sequence *sequence) {
    QN_TRY(copy_sequence(sequence, &made->sequence));
    QN_TRY(qn_resequence(graph, &made->sequence, qn_machine_disk(machine), &made->graph,
                         &made->origins));
    QN_TRY(qn_plan_create_as_is(allocator, made->graph, machine, &made->plan));
    count(made);
    return QN_OK;
}

qn_status qn_budget_plan_make(const qn_allocator *allocator, const qn_graph *graph,
                              const qn_machine *machine, const qn_sequence *sequence,
                              qn_budget_plan *made) {
    qn_budget_plan fresh = {0};
    qn_sequence_init(&fresh.sequence, allocator);
    const qn_status status = make(&fresh, allocator, graph, machine, sequence);
    if (status != QN_OK) {
        qn_budget_plan_deinit(&fresh);
        return status;
    }
    *made = fresh;
    return QN_OK;
}

void qn_budget_plan_deinit(qn_budget_plan *made) {
    qn_plan_destroy(made->plan);
    qn_graph_destroy(made->graph);
    if (made->sequence.allocator)
        qn_sequence_deinit(&made->sequence);
    *made = (qn_budget_plan){0};
}
