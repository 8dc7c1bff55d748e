/* Helpers that operators share: parts of shape rules, costs and gradient rules. */
#ifndef QN_OPS_SHARED_H
#define QN_OPS_SHARED_H

#include "base/status.h"
#include "ops/ops.h"

#include <stddef.h>

/* One row of an operator's attribute list. */
#define QN_FIELD(struct_name, type, member)                                                        \
    { #member, type, offsetof(struct_name, member) }

/* Attributes of operators that have nothing but an activation. */
typedef struct qn_activation_attributes {
    qn_activation activation;
} qn_activation_attributes;

extern const qn_attribute qn_activation_fields[];

/* Attributes of the operators of a convolution's gradient, which cannot tell all extents from their
 * inputs. */
typedef struct qn_conv2d_backward_attributes {
    qn_convolution shape;
} qn_conv2d_backward_attributes;

/* ---- shape rules ---- */

/* Output 0 is like input 0, and all inputs that are there have one shape. */
qn_status qn_infer_elementwise(qn_infer *infer);

/* The same of real numbers or QN_I8, all of one type. */
qn_status qn_infer_activation(qn_infer *infer);

/* Input i must have a shape; what names it in the message. */
qn_status qn_infer_expect(const qn_infer *infer, int i, const char *what, qn_shape shape);

/* Input i must have a rank; axes says which, as "(N, H, W, C)". */
qn_status qn_infer_rank(const qn_infer *infer, int i, int rank, const char *axes);

/* Input i must be of an integer type. */
qn_status qn_infer_dtype(const qn_infer *infer, int i, qn_dtype dtype);

/* Input i must be real, a 16-bit float or QN_I8. */
qn_status qn_infer_real_half_or_i8(const qn_infer *infer, int i);

/* Inputs whose types qn_infer_product checks, for any_type_inputs. */
enum { QN_PRODUCT_INPUTS = 7 };

/* The operands of a product, inputs 0 and 1, are real and of one type, or both I8, whose products
 * are I32, and a third input is of the result's type; or both BF16 or F16, as is the result, and a
 * third input is F32. Of these and of whole numbers only ReLU is an activation. */
qn_status qn_infer_product(const qn_infer *infer, qn_activation_kind activation, qn_dtype *result);

/* The same of a product that sums over the batch, which is never rounded to BF16 or F16. */
qn_status qn_infer_sums(const qn_infer *infer, qn_dtype *result);

/* The last extent, and the product of all others. */
int64_t qn_shape_columns(qn_shape shape);
int64_t qn_shape_rows(qn_shape shape);

/* The extents of a window of kernel (R, S) over an input (N, H, W, C) with K outputs; and the same
 * where it is not known yet whether they fit. */
qn_convolution qn_window_extents(const qn_window *window, qn_shape input, int64_t k, int64_t r,
                                 int64_t s, int64_t groups);
qn_status qn_window_apply(const qn_window *window, qn_shape input, int64_t k, int64_t r, int64_t s,
                          int64_t groups, qn_convolution *d);

/* The shapes of the tensors of a convolution or pooling. */
qn_shape qn_conv2d_input(const qn_convolution *d);
qn_shape qn_conv2d_filter(const qn_convolution *d);
qn_shape qn_conv2d_output(const qn_convolution *d);

/* ---- properties ---- */

/* A property that holds whatever the attributes are. */
bool qn_is_always(const void *attributes);

/* The scale of the result is that of input 0, whatever the attributes are. */
int qn_scaled_by_first(const void *attributes);

/* ---- pieces of a batch ---- */

/* The first extent, for a piece. */
void qn_split_shape(int64_t pieces, qn_shape *shape);

/* The rule "split" for qn_conv2d_backward_attributes. */
void qn_split_conv2d(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                     void *attributes);

/* ---- costs ---- */

/* So many operations for each element of output 0; bytes of all inputs and outputs. */
qn_cost qn_cost_elements(int64_t flops_each, const qn_tensor *outputs);

/* ---- gradient rules ---- */

/* Adds an operator of the gradient of node under the name "NODE.suffix"; output 0. */
qn_value qn_gradient_add(qn_graph *graph, const qn_node *node, const char *suffix, const qn_op *op,
                         const qn_value *inputs, int n_inputs, const void *attributes);

/* d(before the activation) from y and dy; dy itself where there is no activation. */
qn_value qn_gradient_activation(qn_graph *graph, const qn_node *node, qn_activation activation,
                                qn_value y, qn_value dy);

/* Sums over all axes but the last: the gradient of a bias. */
qn_value qn_gradient_columns(qn_graph *graph, const qn_node *node, const char *suffix, qn_value dy);

/* Gradient rule and cost of operators that are nothing but an activation. */
void qn_activation_gradient(qn_graph *graph, const qn_gradient *gradient);
qn_cost qn_activation_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs);

/* A parameter for a sample, uniform in [-scale, scale). */
qn_value qn_sample_parameter(qn_graph *graph, const char *name, qn_shape shape, double scale);

/* ---- every operator; list.c holds the list ---- */
#define QN_OPERATOR(id) extern const qn_op qn_op_##id;
#include "ops/operators.def"
#undef QN_OPERATOR

#endif
