/* The journal: events of several rings in order, and in memory that does not suffice: what it folds
 * and what it keeps are together all that happened, against sums made here the simple way. */
#include "meter/journal.h"

#include "base/memory.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "small_models.h"

#include <stdlib.h>

enum { MOST_EVENTS = 1 << 16, MOST_NS = 1 << 20, MOST_STEPS = 512, SMALL_BYTES = 16384 };

/* What happened, as the test knows it. */
typedef struct history {
    qn_events *rings; /* threads 0 and 1, and marks */
    int64_t now_ns;
    int n_events, n_marks;
    qn_event events[MOST_EVENTS];
    int64_t marks_ns[MOST_STEPS];
    bool is_covered[MOST_NS]; /* by an operation or share */
} history;

static qn_trainer *trainer;
static const qn_engine *engine;
static int n_items;

static history *begin(size_t capacity) {
    history *h = calloc(1, sizeof *h);
    if (!h || qn_events_create(qn_allocator_default(), 3, capacity, &h->rings) != QN_OK)
        exit(1);
    h->now_ns = 1000;
    return h;
}

static void end(history *h) {
    qn_events_destroy(h->rings);
    free(h);
}

static void put(history *h, int ring, qn_event event) {
    if (h->n_events == MOST_EVENTS || event.end_ns > MOST_NS)
        exit(1);
    h->events[h->n_events++] = event;
    for (int64_t t = event.begin_ns; event.kind != QN_EVENT_RUN && t < event.end_ns; t++)
        h->is_covered[t] = true;
    qn_events_put(h->rings, ring, &event);
}

static void mark(history *h) {
    const qn_event event = {h->now_ns, h->now_ns, 0, -1, 0, 0, QN_EVENT_MARK};
    h->marks_ns[h->n_marks++] = h->now_ns;
    qn_events_put(h->rings, 2, &event);
    h->now_ns += 3;
}

/* A run of n operations; every third has a share on thread 1, some of which last longer. */
static void run(history *h, int n) {
    const int64_t begin_ns = h->now_ns;
    const int step = h->n_marks;
    for (int i = 0; i < n; i++) {
        const int64_t t = h->now_ns + 2;
        const int item = i % n_items;
        if (i % 3 == 0)
            put(h, 1, (qn_event){t + 3, t + 7 + i % 6, step, item, 0, 1, QN_EVENT_SHARE});
        put(h, 0, (qn_event){t, t + 9, step, item, 0, 0, QN_EVENT_OPERATION});
        h->now_ns = t + 10;
    }
    put(h, 0, (qn_event){begin_ns, h->now_ns, step, -1, 0, 0, QN_EVENT_RUN});
    h->now_ns += 4;
}

static int64_t covered(const history *h, int64_t from_ns, int64_t to_ns) {
    int64_t n = 0;
    for (int64_t t = from_ns; t < to_ns; t++)
        n += h->is_covered[t];
    return n;
}

/* ---- checks ---- */

static void check_order(const qn_recording *r) {
    bool all = true;
    for (size_t i = 1; i < r->n_events; i++)
        all = all && r->events[i - 1].begin_ns <= r->events[i].begin_ns;
    for (int64_t i = 1; i < r->n_marks; i++)
        all = all && r->marks_ns[i - 1] < r->marks_ns[i];
    CHECK(all);
}

static qn_fold_row sum_row(const history *h, int item, int64_t from_ns, int64_t to_ns) {
    qn_fold_row sum = {0};
    for (int i = 0; i < h->n_events; i++) {
        const qn_event *e = &h->events[i];
        if (e->kind == QN_EVENT_RUN || e->item != item || e->begin_ns < from_ns ||
            e->begin_ns >= to_ns)
            continue;
        const bool is_operation = e->kind == QN_EVENT_OPERATION;
        sum.calls += is_operation;
        sum.total_ns += is_operation ? e->end_ns - e->begin_ns : 0;
        sum.core_ns += e->end_ns - e->begin_ns;
    }
    return sum;
}

static int count_from(const history *h, int64_t from_ns) {
    int n = 0;
    for (int i = 0; i < h->n_events; i++)
        n += h->events[i].begin_ns >= from_ns;
    return n;
}

/* The fold is of whole measured steps, right behind the skipped ones; what it sums up is what lay
 * there; all later events were kept. */
static void check_fold(const history *h, const qn_recording *r) {
    const qn_fold *fold = &r->folds[0];
    bool all = true;
    CHECK(r->n_folds == 1);
    CHECK(fold->begin_ns == r->marks_ns[r->skip_steps]);
    const int update = qn_engine_operation_count(engine, QN_PROGRAM_UPDATE);
    for (int item = 0; item < n_items; item++) {
        const qn_fold_row sum = sum_row(h, item, fold->begin_ns, fold->end_ns);
        all = all && memcmp(&sum, &fold->rows[update + item], sizeof sum) == 0;
    }
    CHECK(all);
    CHECK(fold->rows[update].calls > 0);
    int64_t n_folded_steps = 0;
    for (int64_t i = r->skip_steps; i + 1 < r->n_marks && r->marks_ns[i] < fold->end_ns; i++) {
        all = all && r->folded_ns[i] == covered(h, r->marks_ns[i], r->marks_ns[i + 1]);
        n_folded_steps += r->marks_ns[i + 1] == fold->end_ns ? i + 1 - r->skip_steps : 0;
    }
    CHECK(all);
    CHECK(n_folded_steps > 0);
    CHECK(r->n_events == 0 || r->events[0].begin_ns >= fold->end_ns);
    CHECK((int)r->n_events == count_from(h, fold->end_ns));
}

/* ---- tests ---- */

static qn_recording recorded(qn_journal *journal) {
    qn_recording r = {.n_events = 0};
    qn_journal_drain(journal);
    qn_journal_get(journal, &r);
    check_order(&r);
    return r;
}

static void test_all_kept(void) {
    history *h = begin(4096);
    qn_journal journal;
    CHECK_OK(qn_journal_init(&journal, qn_allocator_default(), engine, h->rings, 3, 1 << 20));
    mark(h);
    for (int i = 0; i < 30; i++) {
        run(h, n_items);
        mark(h);
        if (i % 7 == 0)
            qn_journal_drain(&journal);
    }
    const qn_recording r = recorded(&journal);
    CHECK((int)r.n_events == h->n_events && r.n_marks == 31 && r.skip_steps == 3);
    CHECK(r.n_folds == 0 && !r.folded_ns && r.n_lost_events == 0);
    CHECK(memcmp(r.marks_ns, h->marks_ns, 31 * sizeof *r.marks_ns) == 0);
    qn_journal_deinit(&journal);
    end(h);
}

static void test_folds(int drain_every, int skip_steps, int n_steps) {
    history *h = begin(4096);
    qn_journal journal;
    CHECK_OK(qn_journal_init(&journal, qn_allocator_default(), engine, h->rings, skip_steps,
                             SMALL_BYTES));
    mark(h);
    for (int i = 0; i < n_steps; i++) {
        run(h, n_items - i % 3);
        run(h, i % 2);
        mark(h);
        if (i % drain_every == 0)
            qn_journal_drain(&journal);
    }
    run(h, 5);
    const qn_recording r = recorded(&journal);
    CHECK(r.n_lost_events == 0);
    CHECK(r.n_marks == n_steps + 1 && journal.n_left_out == 0);
    check_fold(h, &r);
    qn_journal_deinit(&journal);
    end(h);
}

/* Nothing is folded that is not measured: events of skipped steps make room. */
static void test_skipped(void) {
    history *h = begin(8192);
    qn_journal journal;
    CHECK_OK(
        qn_journal_init(&journal, qn_allocator_default(), engine, h->rings, 1000, SMALL_BYTES));
    for (int i = 0; i < 100; i++) {
        mark(h);
        run(h, n_items);
    }
    mark(h);
    const qn_recording r = recorded(&journal);
    CHECK(r.n_folds == 0 && r.n_lost_events == 0);
    CHECK(r.n_events > 0 && r.events[r.n_events - 1].kind != QN_EVENT_MARK);
    CHECK(r.n_marks == 101 && r.skip_steps == 1000);
    qn_journal_deinit(&journal);
    end(h);
}

/* A step that is larger than the journal: what does not fit is lost, and counted. */
static void test_too_large(void) {
    history *h = begin(8192);
    qn_journal journal;
    CHECK_OK(qn_journal_init(&journal, qn_allocator_default(), engine, h->rings, 0, SMALL_BYTES));
    mark(h);
    run(h, 3000);
    mark(h);
    const qn_recording r = recorded(&journal);
    CHECK(r.n_folds == 0);
    CHECK(r.n_lost_events > 0 && (int64_t)r.n_events + r.n_lost_events == h->n_events);
    qn_journal_deinit(&journal);
    end(h);
}

/* Marks without end: the latest are kept, with their events. */
static void test_marks(bool has_engine) {
    history *h = begin(8192);
    qn_journal journal;
    CHECK_OK(qn_journal_init(&journal, qn_allocator_default(), has_engine ? engine : NULL, h->rings,
                             3, 1024));
    const int64_t most = journal.mark_capacity;
    mark(h);
    for (int i = 0; i < 300; i++) {
        if (has_engine)
            run(h, n_items);
        mark(h);
        if (i % 20 == 0)
            qn_journal_drain(&journal);
    }
    const qn_recording r = recorded(&journal);
    CHECK(most < 100 && r.n_marks <= most && r.n_marks >= 2);
    CHECK(r.skip_steps == 0 && 3 + journal.n_left_out + r.n_marks - 1 == 300);
    CHECK(memcmp(r.marks_ns, h->marks_ns + 301 - r.n_marks,
                 (size_t)r.n_marks * sizeof *r.marks_ns) == 0);
    CHECK(r.n_lost_events == 0);
    CHECK(r.n_folds > 0 || (int)r.n_events == count_from(h, r.marks_ns[0]));
    if (r.n_folds > 0)
        check_fold(h, &r);
    qn_journal_deinit(&journal);
    end(h);
}

static void test_failures(void) {
    history *h = begin(64);
    qn_status status = QN_ERROR_MEMORY;
    for (int n = 0; n < 100 && status != QN_OK; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_journal journal;
        status = qn_journal_init(&journal, &allocator, engine, h->rings, 3, SMALL_BYTES);
        CHECK((status == QN_OK) == (n >= 6));
        if (status == QN_OK) {
            CHECK(f.held_bytes <= SMALL_BYTES + 1024 * (int64_t)sizeof(qn_event) + 8192);
            qn_journal_deinit(&journal);
        }
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
    end(h);
}

int main(void) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    o.engine.n_threads = 2;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    if (!trainer)
        return checks_finish();
    engine = qn_trainer_engine(trainer);
    n_items = qn_engine_operation_count(engine, 0);
    test_all_kept();
    test_folds(1, 3, 200);
    test_folds(7, 0, 250);
    test_folds(50, 3, 200);
    test_skipped();
    test_too_large();
    test_marks(true);
    test_marks(false);
    test_failures();
    qn_trainer_destroy(trainer);
    return checks_finish();
}
