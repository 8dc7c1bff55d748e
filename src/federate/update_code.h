/* How a client sends what its training changed: the message that a client would send, decoded as a
 * server would, and the bytes of it. */
#ifndef QN_FEDERATE_UPDATE_CODE_H
#define QN_FEDERATE_UPDATE_CODE_H

#include "quern/base.h"

typedef enum qn_update_code {
    QN_UPDATE_FULL, /* floats: 4 bytes a number */
    QN_UPDATE_INT8, /* bytes with an exponent for each tensor, as in NITI (Wang et al. 2020): d is
                       q * 2^e with |q| <= 127, rounded to the nearest */
} qn_update_code;

/* Replaces the change of a tensor by what the server decodes of it; returns the message's bytes. */
int64_t qn_update_send(qn_update_code code, float *change, int64_t n);

#endif
