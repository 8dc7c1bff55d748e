/* The zoo's list, and what its files share. */
#ifndef QN_MODELS_MODELS_H
#define QN_MODELS_MODELS_H

#include "quern/model.h"

/* One row of qn_zoo for each model; a null pointer ends it. */
extern const qn_model *const qn_zoo[];

extern const qn_model qn_model_mlp, qn_model_lenet5, qn_model_lenet_relu, qn_model_vgg_small,
    qn_model_alexnet, qn_model_vgg11, qn_model_vgg16, qn_model_vgg19, qn_model_resnet18,
    qn_model_resnet34, qn_model_resnet50, qn_model_resnet101, qn_model_resnet152,
    qn_model_squeezenet, qn_model_mobilenet_v1, qn_model_mobilenet_v2, qn_model_efficientnet_lite0,
    qn_model_efficientnet_lite1, qn_model_efficientnet_lite2, qn_model_googlenet,
    qn_model_inception_v3, qn_model_xception, qn_model_densenet40, qn_model_densenet100,
    qn_model_char_cnn, qn_model_char_lstm, qn_model_next_word, qn_model_seq2seq, qn_model_dcgan,
    qn_model_dqn, qn_model_bert_base, qn_model_bert_tiny;

/* Networks of a model that translates; see the task "translation". */
enum { QN_TRANSLATE_WHOLE = 0, QN_TRANSLATE_ENCODER, QN_TRANSLATE_STEP };

/* Networks of a model that answers questions; see the task "answering". */
enum { QN_ANSWER_FULL = 0, QN_ANSWER_PADDED };

/* Input height from which on image classifiers take their ImageNet form. */
enum { QN_LARGE_IMAGE = 128 };

/* Whether x (N, H, W, C) calls for the ImageNet form. */
bool qn_is_large(const qn_graph *graph, qn_value x);

/* Fails the graph unless x is (N, H, W, C) with H and W of at least size; why ends the message. */
bool qn_needs_size(qn_graph *graph, const char *model, qn_value x, int64_t size, const char *why);

/* A window that keeps the size at stride 1, of odd extents; a square one. */
qn_window qn_window_keep(int kernel_h, int kernel_w);
qn_window qn_window_keep_square(int kernel, int stride);

/* Max pool without padding whose last windows may reach beyond the image, but start in it. */
qn_value qn_max_pool_ceil(qn_graph *graph, const char *name, qn_value x, int kernel, int stride);

/* Convolution without bias that keeps the size at stride 1, and batch norm: "NAME.conv",
 * "NAME.norm". groups 0: 1. */
qn_value qn_conv_norm(qn_graph *graph, const char *name, qn_value x, int64_t filters, int kernel,
                      int stride, int64_t groups);

/* The same with ReLU: "NAME.relu". */
qn_value qn_conv_norm_relu(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                           int kernel, int stride, int64_t groups);

/* The same without ReLU and with any window and epsilon. */
qn_value qn_conv_norm_window(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                             qn_window window, int64_t groups, double epsilon);

/* The same with ReLU6: "NAME.relu6". */
qn_value qn_conv_norm_relu6_window(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                   qn_window window, int64_t groups, double epsilon);

/* With ReLU, any window and epsilon, in one group. */
qn_value qn_conv_norm_relu_window(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                  qn_window window, double epsilon);

/* The network of Q-learning over frames, or rows of numbers: variants. Bare, it takes kept[0],
 * where that is a value, for its state. */
enum { QN_DQN_FRAMES = 0, QN_DQN_MLP = 1 };

/* Its input, (N, 84, 84, 4) or (N, C). */
qn_shape qn_dqn_input(const qn_network_sizes *sizes);

/* ---- losses.c: what tasks make of outputs. Each adds labels and results, and returns the loss
 * ---- */

/* Logits (..., C), with a label for each row; then the states (n) that go on. */
qn_value qn_language_loss(qn_graph *graph, qn_value logits, const qn_value *states, int n);
qn_value qn_translation_loss(qn_graph *graph, qn_value logits);

/* Logits (N, T) of the first and the last token of the answer. */
qn_value qn_answering_loss(qn_graph *graph, const qn_value logits[2]);

/* Values (N, actions). */
qn_value qn_control_loss(qn_graph *graph, qn_value values);

/* Two networks that learn from each other: noise to images, images to logits (N, 1) of being real.
 */
typedef struct qn_adversaries {
    void *user;
    qn_value (*generate)(qn_graph *graph, void *user, qn_value noise);
    qn_value (*judge)(qn_graph *graph, void *user, qn_value images);
} qn_adversaries;

qn_value qn_generation_loss(qn_graph *graph, const qn_adversaries *adversaries, qn_shape images,
                            qn_shape noise, int phase, qn_value *kept);
/* Both apart, with inputs for images and noise; results are the images made and the logits. */
qn_value qn_generation_bare(qn_graph *graph, const qn_adversaries *adversaries, qn_shape images,
                            qn_shape noise);

/* The batch of a classifier that it can be built for in any case: 1, or that of its file. */
int64_t qn_model_batch(const qn_model *model);

/* Who is told of a model's trainable parameters, in their order: layer as passes/layers.h counts
 * them, and the name of the node that reads it first. */
typedef struct qn_parameter_list {
    void *user;
    void (*put)(void *user, int layer, const char *name, const qn_shape *shape, const char *reader);
} qn_parameter_list;

/* As qn_model_measure. */
qn_status qn_model_list_parameters(const qn_model *model, qn_shape input, int n_outputs,
                                   const qn_parameter_list *list);

#endif
