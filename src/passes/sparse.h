/* The sparse update (Lin et al. 2022, "On-Device Training Under 256KB Memory", section 3.2): only
 * the last layers' weights and biases are trained, and of chosen layers only a part of the weight,
 * some of its input channels. Everything else is as if it were frozen: what its gradients would
 * need is not computed and not kept. Runs before fusion and autodiff. */
#ifndef QN_PASSES_SPARSE_H
#define QN_PASSES_SPARSE_H

#include "graph/graph.h"

/* Layers are the operators with a weight whose rows are products (qn_op.is_linear), counted from
 * the last one; the norms behind one count as its bias. */
typedef struct qn_sparse {
    bool is_used;
    int weights; /* of so many last layers are trained */
    int biases;  /* likewise; -1: of the layers from the first on whose weight is trained */
    qn_part_choice by;
    /* "PATTERN=X": of the weight of such layers the part X is trained, the last one that fits
     * counts; what else there is of qn_sparse_read's text is passed over. Null: none. */
    const char *parts;
} qn_sparse;

/* The words of qn_part_choice. */
extern const char *const qn_part_choices[QN_PART_CHOICES];

/* Reads "weights=N,biases=N,channels=CHOICE,PATTERN=X,...", in any order, each as often as wanted;
 * the text must outlive what is read. */
qn_status qn_sparse_read(const char *text, qn_sparse *sparse);

/* Says of the graph's parameters which are trained, among those that are, and which part. */
qn_status qn_sparse_select(qn_graph *graph, const qn_sparse *sparse);

/* Whether part of some weight is trained. */
bool qn_sparse_has_parts(const qn_graph *graph);

/* The graph with what layers keep for the gradients of parts; values as of qn_fuse. */
qn_status qn_sparse_keep(const qn_graph *graph, qn_graph **made, const qn_value **values);

#endif
