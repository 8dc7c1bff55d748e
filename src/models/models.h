/* The zoo's list, and what its files share. */
#ifndef QN_MODELS_MODELS_H
#define QN_MODELS_MODELS_H

#include "quern/model.h"

/* One row of qn_zoo for each model; a null pointer ends it. */
extern const qn_model *const qn_zoo[];

extern const qn_model qn_model_mlp, qn_model_lenet5, qn_model_alexnet, qn_model_vgg11,
    qn_model_vgg16, qn_model_vgg19, qn_model_resnet18, qn_model_resnet34, qn_model_resnet50,
    qn_model_resnet101, qn_model_resnet152, qn_model_mobilenet_v1, qn_model_mobilenet_v2;

/* Input height from which on image classifiers take their ImageNet form. */
enum { QN_LARGE_IMAGE = 128 };

/* Whether x (N, H, W, C) calls for the ImageNet form. */
bool qn_is_large(const qn_graph *graph, qn_value x);

/* Fails the graph unless x is (N, H, W, C) with H and W of at least size; why ends the message. */
bool qn_needs_size(qn_graph *graph, const char *model, qn_value x, int64_t size, const char *why);

/* Convolution without bias that keeps the size at stride 1, and batch norm: "NAME.conv",
 * "NAME.norm". groups 0: 1. */
qn_value qn_conv_norm(qn_graph *graph, const char *name, qn_value x, int64_t filters, int kernel,
                      int stride, int64_t groups);

/* The same with ReLU: "NAME.relu". */
qn_value qn_conv_norm_relu(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                           int kernel, int stride, int64_t groups);

#endif
