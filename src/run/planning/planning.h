/* Planning an engine's programs within a number of bytes, for the files that choose the number. */
#ifndef QN_RUN_PLANNING_PLANNING_H
#define QN_RUN_PLANNING_PLANNING_H

#include "run/engine.h"

/* A try of planning within `total` bytes, and what it came to. A try depends on nothing but total,
 * most, before and is_rough, and what is known of earlier ones until qn_fit_end. */
typedef struct qn_fit {
    size_t total;        /* bytes, those outside included */
    size_t most;         /* that may be held meanwhile */
    size_t before;       /* that were held at most before planning */
    bool no_offers;      /* what policies offer is not used: no swap file, although there is one */
    bool is_rough;       /* only whether there are plans matters, not how fast they are */
    size_t reserve;      /* set aside for plans and executors */
    size_t peak_bytes;   /* that were held at most in its tries */
    size_t needed_bytes; /* 0: the programs are planned; else a guess of what would do */
    bool is_hopeless; /* there are no plans with next to nothing set aside: none for less bytes */
    size_t used;      /* of plans that fit: what they take, and took to be made */
} qn_fit;

/* Plans all programs as they are: what that takes is known exactly. */
qn_status qn_fit_usual(qn_engine *engine, qn_fit *fit);

/* Plans all programs in pieces, with values made again, or swapped, as it takes; without the
 * policies' offers where what they need themselves is too much. The engine's
 * planning.is_within is set, and what is kept between tries is released by qn_fit_end. */
qn_status qn_fit_within(qn_engine *engine, qn_fit *fit);
void qn_fit_end(qn_engine *engine);

/* Takes the plans of options.saved_plan for the programs; which is forgotten then. */
qn_status qn_engine_take_saved(qn_engine *engine);

/* Plans all programs within the engine's budget, or refuses it and names one that works. */
qn_status qn_engine_plan_budget(qn_engine *engine);

#endif
