/* Random bytes from the system, for what must not be guessed: keys and identities. What training
 * draws comes from base/rng.h. */
#ifndef QN_OS_RANDOM_H
#define QN_OS_RANDOM_H

#include "quern/base.h"

qn_status qn_random_fill(void *data, size_t bytes);

#endif
