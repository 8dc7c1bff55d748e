/* Convolution over time: qn_conv2d on images one row high, which are views of x, filter and result.
 */
#include "base/status.h"
#include "ops/shared.h"

#include <stdio.h>

/* "NAME.what" in text, or null where there is no name. */
static const char *part_name(const char *name, const char *what, char text[512]) {
    snprintf(text, 512, "%s.%s", name ? name : "", what);
    return name ? text : NULL;
}

qn_value qn_conv1d(qn_graph *graph, const char *name, qn_value x, qn_value filter, qn_value bias,
                   int pad_before, int pad_after) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    char x_text[QN_SHAPE_TEXT], filter_text[QN_SHAPE_TEXT], part[512];
    const qn_shape d = qn_graph_shape(graph, x), f = qn_graph_shape(graph, filter);
    const qn_window window = {.pad_left = pad_before, .pad_right = pad_after};
    if (d.rank != 3 || f.rank != 3 || d.dims[2] != f.dims[2]) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "%s%s (conv1d): input %s and filter %s are not (N, T, C) and (K, R, C)",
                      graph->scope, name ? name : "unnamed", qn_shape_print(d, x_text),
                      qn_shape_print(f, filter_text));
        return QN_NO_VALUE;
    }
    x = qn_reshape(graph, part_name(name, "image", part), x,
                   QN_SHAPE(d.dims[0], 1, d.dims[1], d.dims[2]));
    filter = qn_reshape(graph, part_name(name, "filter", part), filter,
                        QN_SHAPE(f.dims[0], 1, f.dims[1], f.dims[2]));
    qn_value y = qn_conv2d(graph, name, x, filter, bias, window, 1);
    return qn_reshape(graph, part_name(name, "sequence", part), y,
                      QN_SHAPE(d.dims[0], -1, f.dims[0]));
}
