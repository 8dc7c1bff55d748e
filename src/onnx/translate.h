/* How nodes of ONNX become quern's. A translator is a function for one operator of ONNX and one row
 * of the list of its file (conv_pool.c, elementwise.c, ...); list.c joins these lists. Every
 * translator sees its inputs as items: values of the graph, or, of shapes, indices and what is
 * worked out of them, whole numbers known at import ("constants"), which are folded: no node is
 * built for them.
 *
 * Layout. An item that is an image (is_image) is (N, H, W, C) in the graph for what the file calls
 * (N, C, H, W); a sequence of conv1d is alike (N, T, C) for (N, C, T). Convolutions, pools and
 * norms take and make images; element by element work keeps what it gets; everything else asks for
 * the file's own order by qn_onnx_plain, which adds a transpose where the item is an image (none
 * where it would move nothing, as with 1x1 images). */
#ifndef QN_ONNX_TRANSLATE_H
#define QN_ONNX_TRANSLATE_H

#include "format/onnx/onnx_file.h"
#include "graph/graph.h"
#include "quern/onnx.h"
#include "quern/ops.h"

/* Of a constant: numbers as doubles or whole numbers, with the file's own order of axes. */
typedef struct qn_onnx_constant {
    qn_onnx_type type;
    qn_shape shape;
    int64_t n;            /* qn_shape_count(shape), or 0 with an extent of 0 */
    const double *reals;  /* (n) of float types, else null */
    const int64_t *whole; /* (n) of whole numbers and bools, else null */
} qn_onnx_constant;

/* What a name of the file stands for: a value, a constant, or a tensor of the file (an initialiser,
 * or that of a node "Constant"), which becomes a constant (qn_onnx_constant_of) or a value
 * (qn_onnx_value_of) when somebody asks. Comparisons are values of 0 and 1 of the graph's real
 * type, with type QN_ONNX_BOOL. */
typedef struct qn_onnx_item {
    const char *name;
    qn_onnx_type type;
    qn_value value; /* or QN_NO_VALUE */
    bool is_image;
    const qn_onnx_constant *constant;
    const qn_onnx_tensor *initializer; /* the tensor of the file, or null */
    bool is_constant_node;             /* it is a node's */
    bool trains;                       /* the tensor is decided to (onnx/trains.h) */
    int order[QN_MAX_RANK];            /* of a parameter: axis i of value is the file's order[i] */
    bool is_statistic;                 /* a batch norm moves it */
    struct qn_onnx_item *turned; /* the weight of the file that it is the transpose of, of which a
                                    value is made when somebody asks; or null */
    qn_value row; /* what was repeated for a batch of the file's, of which a value is made when
                     somebody asks, named row_name; or QN_NO_VALUE */
    const char *row_name;
    int64_t n_rows;
    const struct qn_onnx_item
        *parts; /* (n_parts) of a sequence, which is no value itself; or null */
    int n_parts;
    qn_value other; /* value with its channels the other way, once made */
} qn_onnx_item;

/* A node that is being built. */
typedef struct qn_onnx_builder qn_onnx_builder;
typedef struct qn_onnx_call {
    qn_onnx_builder *builder;
    qn_graph *graph;
    const qn_onnx_node *node;
    const char *name; /* for the graph's node: the file's, made unique and free of what names may
                         not have */
    int64_t opset;
    int n_inputs;
    qn_onnx_item *const *inputs; /* null: left out */
} qn_onnx_call;

typedef struct qn_onnx_translator {
    const char *type;              /* "Conv" */
    int least_inputs, most_inputs; /* most -1: any number */
    /* Sets every output that is used by qn_onnx_give*; a failure is QN_ERROR_UNSUPPORTED with the
     * reason and what to do ("auto_pad with dilation: export with explicit pads"), QN_ERROR_FORMAT
     * where the node is wrong. The node's name is added by the caller. */
    qn_status (*build)(qn_onnx_call *call);
} qn_onnx_translator;

/* One list for each file, ended by a row with type null; null ends the list of lists. */
extern const qn_onnx_translator *const qn_onnx_translators[];
extern const qn_onnx_translator qn_onnx_conv_pool_translators[], qn_onnx_matrix_translators[],
    qn_onnx_elementwise_translators[], qn_onnx_reduce_translators[], qn_onnx_shape_translators[],
    qn_onnx_index_translators[], qn_onnx_recurrent_translators[], qn_onnx_norm_translators[],
    qn_onnx_resample_translators[], qn_onnx_select_translators[], qn_onnx_known_translators[],
    qn_onnx_function_translators[], qn_onnx_einsum_translators[], qn_onnx_control_translators[],
    qn_onnx_sequence_translators[], qn_onnx_quantise_translators[], qn_onnx_spectrum_translators[],
    qn_onnx_scatter_translators[], qn_onnx_grid_translators[], qn_onnx_attention_translators[],
    qn_onnx_loss_translators[], qn_onnx_change_translators[], qn_onnx_integer_translators[],
    qn_onnx_region_translators[];
const qn_onnx_translator *qn_onnx_find_translator(const char *type);
/* That of a node; those of another domain than ONNX's own are found as "DOMAIN.TYPE". */
const qn_onnx_translator *qn_onnx_translator_of(const qn_onnx_node *node);

/* ---- attributes, with what stands for one that is not there ---- */
/* One by its name, or null. Those that nobody asks for are refused in files of an opset outside of
 * these two: they may change what a node does. */
enum { QN_ONNX_FIRST_OPSET = 7, QN_ONNX_STABLE_OPSET = 23 };
const qn_onnx_attribute *qn_onnx_attribute_of(const qn_onnx_call *call, const char *name);
int64_t qn_onnx_int(const qn_onnx_call *call, const char *name, int64_t fallback);
/* As the shortest decimal that is this float: 1e-5 for 1e-5f. */
double qn_onnx_decimal(float number);
double qn_onnx_float(const qn_onnx_call *call, const char *name, double fallback);
const char *qn_onnx_text(const qn_onnx_call *call, const char *name, const char *fallback);
/* A list of whole numbers; *n 0 and null where there is none. */
const int64_t *qn_onnx_ints(const qn_onnx_call *call, const char *name, int *n);

/* ---- inputs ---- */
bool qn_onnx_has(const qn_onnx_call *call, int input);
qn_onnx_type qn_onnx_type_at(const qn_onnx_call *call, int input); /* QN_ONNX_NONE: left out */
bool qn_onnx_is_image(const qn_onnx_call *call, int input);
/* Known at import: shapes and what follows from them, constants of the file, numbers. Initialisers
 * that train are not, nor are real ones of rank 1 and above, which a checkpoint may have otherwise.
 */
bool qn_onnx_is_known(const qn_onnx_call *call, int input);
/* All inputs that are there are: fold. */
bool qn_onnx_folds(const qn_onnx_call *call);
/* As a value of the graph, however it lies; a real initialiser becomes a parameter, another
 * constant a constant of the graph. */
qn_value qn_onnx_value_of(qn_onnx_call *call, int input);
/* The same in the file's order of axes. */
qn_value qn_onnx_plain(qn_onnx_call *call, int input);
/* With channels last, (N, H, W, C), of something of rank 4, or less: 1s are put before it then (an
 * operand that is broadcast against an image). */
qn_value qn_onnx_image(qn_onnx_call *call, int input);
/* The same of rank 3 to 5: (N, ..., C). */
qn_value qn_onnx_channels_last(qn_onnx_call *call, int input, int rank);
/* Its shape in the file's order of axes. */
qn_shape qn_onnx_shape(const qn_onnx_call *call, int input);
/* Whether, in a file that was made for another batch, it is the same for every sample of one: equal
 * rows for as many as the file's batch. Where it goes together with what has this batch, it has it,
 * too: a value (or QN_NO_VALUE) with that first extent, in the layout of a rank, or as the file
 * says. */
bool qn_onnx_is_even(const qn_onnx_call *call, int input);
qn_value qn_onnx_for_batch(qn_onnx_call *call, int input, bool is_image);
/* What is known at import, weights too, or null: then it changes while training and cannot be what
 * is asked for (or memory is out). */
const qn_onnx_constant *qn_onnx_constant_of(const qn_onnx_call *call, int input);
/* A parameter of a layer under the initialiser's name, trainable unless it is decided not to train,
 * its axes in the order given (null: as they are; axis i of the result is the file's order[i]):
 * filters (K, C, R, S) by {0, 2, 3, 1} become
 * (K, R, S, C). Where the input is no tensor of the file, or is there already in another order, a
 * transpose of its value. */
qn_value qn_onnx_parameter(qn_onnx_call *call, int input, const int *order, bool trainable);
/* Whether it is a matrix of the file, or the transpose of one, which a layer can have as weight. */
bool qn_onnx_is_weight(const qn_onnx_call *call, int input);

/* ---- outputs ---- */
void qn_onnx_give(qn_onnx_call *call, int output, qn_value value, bool is_image);
/* A value that stands for something else than reals (QN_ONNX_BOOL: 0 and 1). */
void qn_onnx_give_typed(qn_onnx_call *call, int output, qn_value value, bool is_image,
                        qn_onnx_type type);
/* Whole numbers or reals known at import; copied. Gives the same as a constant. */
qn_status qn_onnx_give_whole(qn_onnx_call *call, int output, qn_onnx_type type, qn_shape shape,
                             const int64_t *whole);
qn_status qn_onnx_give_reals(qn_onnx_call *call, int output, qn_shape shape, const double *reals);
/* Gives a tensor of a shape that has no elements (empty.c). */
qn_status qn_onnx_give_empty(qn_onnx_call *call, int output, qn_onnx_type type, qn_shape shape);
/* Gives the input itself (Identity, a cast that changes nothing). */
void qn_onnx_give_input(qn_onnx_call *call, int output, int input);
/* Gives the transpose of a matrix of the file, so that a product with it is a layer with that
 * weight; false where input 0 or the order are others. */
bool qn_onnx_give_turned(qn_onnx_call *call, const int *order);
/* Gives a value with a first extent of 1 as one of n_rows equal rows. */
void qn_onnx_give_rows(qn_onnx_call *call, int output, qn_value row, int64_t n_rows);
bool qn_onnx_is_used(const qn_onnx_call *call, int output);

/* "NAME.suffix", free in the graph, for a node beside the one that is called NAME; null when memory
 * is out. */
const char *qn_onnx_side_name(qn_onnx_call *call, const char *suffix);

/* The batch: what the file says (-1: open), and what it is now. Equal unless a file that was made
 * for one batch is used with another; shapes in it may then begin with the file's. */
void qn_onnx_batch(const qn_onnx_call *call, int64_t *file, int64_t *now);

/* Memory until the build ends; null when memory is out (the graph keeps that). */
void *qn_onnx_scratch(qn_onnx_call *call, size_t bytes);

#endif
