/* See sensing.h. */
#include "cli/meter/sensing.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/cpu_time.h"

#include <math.h>
#include <string.h>

enum { MOST_REMARKS = 64, ROUND_NS = 50000000, MOST_ROUNDS = 31 };

static void hear(void *user, const char *source, const char *text) {
    sensing *s = user;
    for (int i = 0; i < s->n_remarks; i++) {
        if (strcmp(s->remarks[i].source, source) == 0 && strcmp(s->remarks[i].text, text) == 0)
            return;
    }
    const char *kept = s->n_remarks < MOST_REMARKS ? qn_arena_text(&s->arena, text) : NULL;
    if (kept)
        s->remarks[s->n_remarks++] = (remark){source, kept};
    else if (s->n_remarks < MOST_REMARKS)
        s->status = QN_ERROR_MEMORY;
}

static qn_status open_kind(sensing *s, const qn_source_options *options, sensed *k) {
    QN_TRY(k->kind->open(options, &k->source));
    if (!k->source)
        return QN_OK;
    k->channels = k->kind->channels(k->source, &k->n);
    k->values = qn_arena_allocate(&s->arena, (size_t)k->n + 1, sizeof *k->values);
    k->readings = qn_arena_allocate(&s->arena, (size_t)k->n + 1, sizeof *k->readings);
    if (!k->values || !k->readings)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < k->n; i++)
        k->values[i] = NAN;
    return QN_OK;
}

static qn_status open_all(sensing *s, const char *root) {
    const bool is_recorded = root[0] != 0;
    const qn_source_options options = {.allocator = qn_allocator_default(),
                                       .root = root,
                                       .is_recorded = is_recorded,
                                       .pid = is_recorded ? 0 : qn_process_id(),
                                       .user = s,
                                       .say = hear};
    int n = 0;
    while (qn_source_kinds[n])
        n++;
    s->kinds = qn_arena_allocate(&s->arena, (size_t)n, sizeof *s->kinds);
    s->remarks = qn_arena_allocate(&s->arena, MOST_REMARKS, sizeof *s->remarks);
    if (!s->kinds || !s->remarks)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        s->kinds[i].kind = qn_source_kinds[i];
        s->n = i + 1;
        QN_TRY(open_kind(s, &options, &s->kinds[i]));
    }
    return s->status;
}

/* Reads a kind; whether all of its channels have said something. */
static bool read_kind(sensed *k, int64_t now_ns) {
    bool is_complete = true;
    if (!k->source)
        return true;
    memset(k->readings, 0, (size_t)k->n * sizeof *k->readings);
    k->kind->read(k->source, now_ns, k->readings);
    for (int i = 0; i < k->n; i++) {
        if (k->readings[i].end_ns != 0)
            k->values[i] = k->readings[i].value;
        is_complete = is_complete && !isnan(k->values[i]);
    }
    return is_complete;
}

/* A recorded tree's files do not change: time goes on without waiting. */
static void read_all(sensing *s, bool is_recorded, qn_monitor *clock) {
    const int64_t begin_ns = qn_clock_ns();
    bool is_complete = false;
    for (int round = 0; round < MOST_ROUNDS && !is_complete; round++) {
        const int64_t now_ns = begin_ns + round * (int64_t)ROUND_NS;
        qn_monitor_lock(clock);
        while (!is_recorded && qn_clock_ns() < now_ns)
            qn_monitor_wait_until(clock, now_ns);
        qn_monitor_unlock(clock);
        is_complete = true;
        for (int i = 0; i < s->n; i++) {
            const int64_t rounds = s->kinds[i].kind->period_ns / ROUND_NS;
            if (rounds == 0 || round % rounds == 0)
                is_complete = read_kind(&s->kinds[i], now_ns) && is_complete;
            else
                is_complete = false;
        }
    }
}

qn_status sensing_begin(sensing *s, const char *root) {
    qn_monitor *clock;
    *s = (sensing){.status = QN_OK};
    qn_arena_init(&s->arena, qn_allocator_default());
    QN_TRY(qn_monitor_create(NULL, &clock));
    qn_status status = open_all(s, root);
    if (status == QN_OK)
        read_all(s, root[0] != 0, clock);
    qn_monitor_destroy(clock);
    return status != QN_OK ? status : s->status;
}

void sensing_end(sensing *s) {
    for (int i = 0; i < s->n; i++) {
        if (s->kinds[i].source)
            s->kinds[i].kind->close(s->kinds[i].source);
    }
    qn_arena_deinit(&s->arena);
}
