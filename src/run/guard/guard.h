/* Keeps a training step that cannot be finished from changing anything. A step runs in three parts:
 * up to its loss, up to its first update, and the updates. Until these begin it can be given up,
 * because its loss is not finite or because it was asked to stop: what it has changed by then, the
 * running means of norms, is put back from copies.
 *
 * An update looks at its gradient before it changes anything (device/call.h): a gradient that is
 * not finite never gets into parameters. Where all gradients are there before the first update
 * (clipping, accumulated batches), all are looked at then, and the step changes nothing. Elsewhere
 * a gradient is given up as soon as it was used, so updates before the bad one may have been made.
 * Therefore a batch with large numbers in its inputs, its loss, the gradients before or the
 * parameters is first run without its updates, which is how gradients come to overflow. What is
 * left, gradients that grow from moderate numbers by 2^68 within one step, leaves finite parameters
 * of which some have made the step: qn_engine_is_sound tells.
 *
 * Not covered: what a device updates, and ranks, which look at the sums of all (run/ranks). */
#ifndef QN_RUN_GUARD_GUARD_H
#define QN_RUN_GUARD_GUARD_H

#include "run/engine.h"

/* Takes memory for the copies: bytes = sum of what training programs change beside what they train.
 */
qn_status qn_guard_create(qn_engine *engine);
void qn_guard_destroy(qn_engine *engine);

/* Has the updates of a plan that has just got its executor look at their numbers, and notes in
 * which of its steps it knows its first loss, and where its updates begin. */
void qn_guard_mark(qn_engine *engine, const qn_program *program);

/* Whether the plan in force of a training program runs in the three parts, and runs it so. */
bool qn_guard_covers(const qn_engine *engine, const qn_program *program);
qn_status qn_guard_run(qn_engine *engine, const qn_program *program, uint64_t step,
                       const qn_watch *watch);

/* Around a run of a training program that is not given to ranks. begin: QN_ERROR_NUMERIC where the
 * batch was tried out and is to be given up. end: of a run that ended so; it looks at the losses
 * and at what the updates have found. Where nothing was changed, *is_changed is false; of a step of
 * several batches with a bad gradient all are given up. */
qn_status qn_guard_begin(qn_engine *engine, const qn_program *program, uint64_t step);
qn_status qn_guard_end(qn_engine *engine, const qn_program *program, qn_status status,
                       bool *is_changed);

/* Before the update from the sums of several batches: QN_ERROR_NUMERIC: one is not finite, and the
 * step was given up. */
qn_status qn_guard_check_sums(qn_engine *engine);

/* After it: QN_ERROR_NUMERIC: the norm that clips the sums is not finite. No update was made, and
 * the step was given up. */
qn_status qn_guard_check_update(qn_engine *engine);

/* Whether all that is trained is finite. */
bool qn_guard_are_finite(const qn_engine *engine);

#endif
