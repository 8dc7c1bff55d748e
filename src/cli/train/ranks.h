/* quern train as one of the processes of mpirun: what they share, and who speaks and saves. Rank 0
 * does; rank 1 saves where the run fails, since rank 0 may be the one that died. */
#ifndef QN_CLI_TRAIN_RANKS_H
#define QN_CLI_TRAIN_RANKS_H

#include "cli/train/training.h"
#include "os/ranks.h"

/* Joins the other processes, if mpirun started several; all but rank 0 then print nothing more. */
qn_status ranks_join(training *t);

/* After the run: waits for the others if it is done. */
void ranks_leave(training *t, bool is_done);

/* Without --accumulate, the batch is cut into a part for each rank. For settings that are resolved.
 */
qn_status ranks_share(training *t);

bool ranks_are_used(const training *t);

/* A line before the first step; figures after the last, a line or members of an object. */
void ranks_print_opening(const training *t);
void ranks_print_done(const training *t);
void ranks_add_json(const training *t);

#endif
