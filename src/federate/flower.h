/* An app for Flower (flower.ai), the engine of federated learning: clients that train with quern's
 * Python package, a server with one of Flower's strategies, and the data divided among clients. */
#ifndef QN_FEDERATE_FLOWER_H
#define QN_FEDERATE_FLOWER_H

#include "federate/simulate.h"

typedef struct qn_flower_options {
    const char *folder;  /* in which no app must be */
    const char *wheel;   /* the file of quern's wheel, which the app depends on; null: the reader is
                             told to add it */
    bool is_secure;      /* secure aggregation, by Flower's SecAgg+; not with a clip */
    bool is_noise_local; /* with a clip: each client adds the noise, instead of the server */
    const char *start;   /* checkpoint of the network to begin with; null: its first weights */
    const char *train_only; /* tensors that clients train and send: patterns, or head; null: all */
} qn_flower_options;

/* Makes the folder: pyproject.toml with the options, README.md, the package quern_app, and data/
 * with the samples and who has which, as qn_federation_create divides them. QN_ERROR_UNSUPPORTED:
 * options that only the simulation knows (drop, code, fleet, memory, numerics). */
qn_status qn_flower_write(const qn_federation_options *options, const qn_flower_options *how);

#endif
