/* Keeps a training step that cannot be finished from changing anything. A step runs in three parts:
 * up to its loss, up to its first update, and the updates. Until these begin it can be given up,
 * because its loss is not finite or because it was asked to stop: what it has changed by then, the
 * running means of norms, is put back from copies.
 *
 * Programs whose updates begin before the first loss is known, and those that a device, ranks or a
 * changing budget run, are not covered; qn_engine_is_sound says what became of them. */
#ifndef QN_RUN_GUARD_GUARD_H
#define QN_RUN_GUARD_GUARD_H

#include "run/engine.h"

/* Takes memory for the copies: bytes = sum of what training programs change beside what they train.
 */
qn_status qn_guard_create(qn_engine *engine);
void qn_guard_destroy(qn_engine *engine);

/* Notes in which of its steps a plan that has just got its executor knows its first loss, and where
 * its updates begin. */
void qn_guard_mark(const qn_engine *engine, qn_program *program);

/* Whether the plan in force of a training program can be given up. */
bool qn_guard_covers(const qn_engine *engine, const qn_program *program);

/* Runs it. QN_ERROR_NUMERIC (the first loss is not finite) and QN_ERROR_INTERRUPTED while
 * may_spoil (qn_engine_stop_on) is false: nothing was changed, and *is_changed is false. */
qn_status qn_guard_run(qn_engine *engine, const qn_program *program, uint64_t step,
                       const qn_watch *watch, bool *is_changed);

/* Whether all that is trained is finite. */
bool qn_guard_are_finite(const qn_engine *engine);

#endif
