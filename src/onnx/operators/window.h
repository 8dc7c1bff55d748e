/* Where the window of a convolution or pool moves: what a node's attributes say of the axes of
 * space, of which there are one (sequences), two (images) or three (volumes). Numbers of an axis
 * stand at the same place for all of them: columns last, rows before, depths first; axes that
 * the input lacks have an extent and a kernel of 1. */
#ifndef QN_ONNX_WINDOW_H
#define QN_ONNX_WINDOW_H

#include "onnx/translate.h"

enum { QN_ONNX_SPACE = 3, QN_ONNX_MOST_EXTENT = 1 << 24 };

typedef struct qn_onnx_window {
    int n_axes;
    int64_t extents[QN_ONNX_SPACE]; /* of the input */
    int64_t kernel[QN_ONNX_SPACE], strides[QN_ONNX_SPACE], dilations[QN_ONNX_SPACE],
        before[QN_ONNX_SPACE], after[QN_ONNX_SPACE];
} qn_onnx_window;

/* A window over the call's first input. kernel, of a filter, agrees with the attribute kernel_shape
 * where there is one; null: it is that. A transposed one that is padded to its output (auto_pad
 * SAME_UPPER, SAME_LOWER) has no pads yet. */
qn_status qn_onnx_window_read(const qn_onnx_call *call, const int64_t *kernel, bool is_transposed,
                              qn_onnx_window *w);

/* A list of an attribute, one number for each axis of space. */
qn_status qn_onnx_window_numbers(const qn_onnx_call *call, const char *name,
                                 const qn_onnx_window *w, int64_t fallback,
                                 int64_t numbers[QN_ONNX_SPACE]);

/* Makes the pads behind larger where the last window, which starts in the input or the pad before
 * it, is cut off; true if one is. */
bool qn_onnx_window_round_up(qn_onnx_window *w);

/* Over two axes; columns negative: over one alone. */
qn_status qn_onnx_window_of(const qn_onnx_window *w, int rows, int columns, qn_window *window);

#endif
