/* What numerics made of whole numbers: the shifts of integer products and the ranges that adapt,
 * from what the engine keeps of them, and how much of a step is computed in whole numbers. */
#ifndef QN_CLI_NUMBERS_SHIFTS_H
#define QN_CLI_NUMBERS_SHIFTS_H

#include "quern/engine.h"

#include <stdint.h>

/* Products so far, of all layers and steps, by how their sums were shifted. */
typedef struct shift_counts {
    int64_t n;
    int64_t kept;   /* by the shift of the step before, as they were made */
    int64_t stored; /* by a computed one, of stored sums */
    int64_t twice;  /* the kept one was wrong, and they were made again */
    int64_t wrong;  /* the kept one was wrong, and stayed ("shifts": "adaptive") */
} shift_counts;

/* n is 0 where there are no such products. */
shift_counts shifts_count(const qn_engine *engine);

/* Lines in the report, or fields of a JSON object that is open; nothing of what there is none. */
void shifts_print(const qn_engine *engine);
void shifts_add_json(const qn_engine *engine);

#endif
