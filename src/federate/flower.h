/* An app for Flower (flower.ai), the engine of federated learning: clients that train with quern's
 * Python package, a server with one of Flower's strategies, and the data divided among clients. */
#ifndef QN_FEDERATE_FLOWER_H
#define QN_FEDERATE_FLOWER_H

#include "federate/simulate.h"

/* Makes the folder, in which no app must be: pyproject.toml with the options, README.md, the
 * package quern_app, and data/ with the samples and who has which, as qn_federation_create divides
 * them. wheel: the file of quern's wheel, which the app depends on; null: the reader is told to add
 * it. QN_ERROR_UNSUPPORTED: options that only the simulation knows (proximal, drop, code). */
qn_status qn_flower_write(const qn_federation_options *options, const char *wheel,
                          const char *folder);

#endif
