/* See ranks.h. */
#include "cli/train/ranks.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "os/heap.h"

#include <stdio.h>

bool ranks_are_used(const training *t) {
    return qn_ranks_count(t->s.how.engine.ranks) > 1;
}

#ifdef QN_WITH_MPI

qn_status ranks_join(training *t) {
    if (!qn_ranks_are_given())
        return QN_OK;
    QN_TRY(qn_ranks_open(qn_allocator_default(), &t->s.how.engine.ranks));
    if (qn_ranks_own(t->s.how.engine.ranks) == 0)
        return QN_OK;
    terminal_be_quiet();
    return qn_output_discard();
}

void ranks_leave(training *t, bool is_done) {
    qn_ranks *ranks = t->s.how.engine.ranks;
    if (ranks && is_done)
        qn_ranks_finish(ranks);
    qn_ranks_close(ranks);
    t->s.how.engine.ranks = NULL;
}

void ranks_print_opening(const training *t) {
    if (ranks_are_used(t))
        terminal_print(2,
                       "%d ranks share the batches of a step, %lld of %lld samples: the same bits "
                       "as one process with --batch %lld --accumulate %lld",
                       qn_ranks_count(t->s.how.engine.ranks),
                       (long long)settings_count(&t->settings, "accumulate"),
                       (long long)settings_count(&t->settings, "batch"),
                       (long long)settings_count(&t->settings, "batch"),
                       (long long)settings_count(&t->settings, "accumulate"));
}

void ranks_print_done(const training *t) {
    char sent[QN_SIZE_TEXT];
    if (!ranks_are_used(t))
        return;
    const qn_ranks_use use = qn_ranks_get_use(t->s.how.engine.ranks);
    terminal_print(2, "rank 0 of %d sent %s and waited %.2f s for the others",
                   qn_ranks_count(t->s.how.engine.ranks),
                   qn_text_print_size((size_t)use.sent_bytes, sent), (double)use.wait_ns * 1e-9);
}

void ranks_add_json(const training *t) {
    if (!ranks_are_used(t))
        return;
    const qn_ranks_use use = qn_ranks_get_use(t->s.how.engine.ranks);
    json_count("ranks", qn_ranks_count(t->s.how.engine.ranks));
    json_count("sent_bytes", use.sent_bytes);
    json_count("received_bytes", use.received_bytes);
    json_number("wait_ms", (double)use.wait_ns * 1e-6);
}

#else

qn_status ranks_join(training *t) {
    (void)t;
    return QN_OK;
}

void ranks_leave(training *t, bool is_done) {
    (void)t;
    (void)is_done;
}

void ranks_print_opening(const training *t) {
    (void)t;
}

void ranks_print_done(const training *t) {
    (void)t;
}

void ranks_add_json(const training *t) {
    (void)t;
}

#endif

qn_status ranks_share(training *t) {
    const int n = qn_ranks_count(t->s.how.engine.ranks);
    const int64_t batch = settings_count(&t->settings, "batch");
    char text[32];
    if (n == 1 || settings_count(&t->settings, "accumulate") > 1)
        return QN_OK;
    if (t->s.kept)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "each step of this checkpoint's run is one batch, which ranks cannot share; "
                       "resume it without mpirun");
    if (batch % n != 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a batch of %lld cannot be shared by %d ranks; use --batch with a multiple "
                       "of %d",
                       (long long)batch, n, n);
    snprintf(text, sizeof text, "%lld", (long long)batch / n);
    QN_TRY(settings_set(&t->settings, "batch", text));
    snprintf(text, sizeof text, "%d", n);
    return settings_set(&t->settings, "accumulate", text);
}
