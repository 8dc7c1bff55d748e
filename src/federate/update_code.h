/* How a client sends what its training changed: the message that a client would send, decoded as a
 * server would, and the bytes of it. */
#ifndef QN_FEDERATE_UPDATE_CODE_H
#define QN_FEDERATE_UPDATE_CODE_H

#include "quern/base.h"

typedef enum qn_update_code {
    QN_UPDATE_FULL, /* floats: 4 bytes a number */
    QN_UPDATE_INT8, /* bytes with an exponent for each tensor, as in NITI (Wang et al. 2020): d is
                       q * 2^e with |q| <= 127, rounded to the nearest */
    QN_UPDATE_TOP,  /* the largest numbers alone, as bytes with one exponent, and the gaps between
                       them in Rice's code (as Sattler et al., "Robust and communication-efficient
                       federated learning from non-IID data", 2019); what the message leaves out is
                       added to the client's next change (Stich, Cordonnier and Jaggi, "Sparsified
                       SGD with memory", NeurIPS 2018) */
} qn_update_code;

/* Replaces the change of a tensor by what the server decodes of it, of FULL and INT8; returns the
 * message's bytes. */
int64_t qn_update_send(qn_update_code code, float *change, int64_t n);

/* The same of TOP for all tensors as one (n): of the n_kept largest, of equal ones the first, what
 * the server decodes stays, and the others become 0. 1 <= n_kept <= n. room: (n), overwritten. */
int64_t qn_update_send_top(float *change, int64_t n, int64_t n_kept, float *room);

/* Bytes q of numbers (n), with the shared exponent e of INT8; and the numbers q * 2^e again. */
int qn_update_encode(const float *numbers, int64_t n, int8_t *bytes);
void qn_update_decode(const int8_t *bytes, int64_t n, int exponent, float *numbers);

#endif
