/* Measured times of an engine's operations as a file in the user's cache folder, found by machine
 * and the engine's hash: one line for each operation. A file in another format is ignored. */
#ifndef QN_FORMAT_OPERATION_TIMES_H
#define QN_FORMAT_OPERATION_TIMES_H

#include "run/timing.h"

/* Calls put for every line of a text, until it fails. QN_ERROR_FORMAT with the line's number where
 * one is none; put may have been called before. */
qn_status qn_operation_times_parse(const char *text, size_t bytes,
                                   qn_status (*put)(void *context, int program, const char *node,
                                                    double ns),
                                   void *context);

/* Gives the engine the times that were kept for it. *n_found operations; 0: none were kept. */
qn_status qn_operation_times_load(qn_engine *engine, int64_t *n_found);

/* Keeps the engine's. */
qn_status qn_operation_times_save(const qn_engine *engine);

#endif
