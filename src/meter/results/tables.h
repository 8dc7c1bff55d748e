/* The operations' tables: a row per node, per type of operator and per layer. */
#ifndef QN_METER_RESULTS_TABLES_H
#define QN_METER_RESULTS_TABLES_H

#include "meter/results/operation_totals.h"

/* Fills m's nodes, types and layers, in m->arena; its other numbers are there. Operations of
 * programs that did not run have no row. */
qn_status qn_tables_make(const qn_recording *recording, const qn_operation_totals *sums,
                         qn_measurement *m);

/* What a node's name says of its layer: name without what gradients, updates and running statistics
 * have behind theirs ("conv1.weight.update": "conv1"). Its length. */
size_t qn_tables_layer(const char *name);

#endif
