/* A pull of what is trained towards the weights that training began with: mu / 2 |w - start|^2 is
 * added to the loss of every step, outside the optimiser's momentum. With the server's weights as
 * start it is FedProx (Li et al., "Federated optimization in heterogeneous networks", MLSys 2020,
 * equation 2), with those of a pretrained network L2-SP (Li et al., "Explicit inductive bias for
 * transfer learning", ICML 2018). */
#ifndef QN_TASKS_PROXIMAL_H
#define QN_TASKS_PROXIMAL_H

#include "quern/engine.h"

/*     n 0: there is no pull */
typedef struct qn_proximal {
    double mu;
    size_t n;      /* numbers that are trained */
    float *start;  /* (n), a state of the engine: checkpoints have it */
    float *before; /* (n) the step */
} qn_proximal;

/* For an engine that is made and not yet planned. mu 0: none. */
qn_status qn_proximal_open(const qn_allocator *allocator, qn_engine *engine, double mu,
                           qn_proximal *proximal);
void qn_proximal_close(const qn_allocator *allocator, qn_proximal *proximal);

/* Around a step of the engine, from its first on. */
void qn_proximal_begin(const qn_proximal *proximal, const qn_engine *engine);
void qn_proximal_end(const qn_proximal *proximal, const qn_engine *engine, double rate);

#endif
