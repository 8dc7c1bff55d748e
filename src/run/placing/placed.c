/* See placed.h. */
#include "run/placing/placed.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT = 24 };

static qn_status refuse(const char *text) {
    return qn_fail(QN_ERROR_ARGUMENT,
                   "\"%.60s\" is no placement of operations: runs like h12d30 (12 on the host, 30 "
                   "on the device), with pieces of the batch before them (2:h12d30), or all",
                   text);
}

/* Runs in one place that follow one another are one. */
static void add_run(qn_placed *p, bool is_device, int32_t length) {
    if (p->n_runs == 0)
        p->n_runs = 1;
    if ((p->n_runs - 1) % 2 != is_device)
        p->n_runs++;
    p->lengths[p->n_runs - 1] += length;
    p->n_nodes += length;
}

/* A number above 0, and the text behind it; null: there is none. */
static const char *read_number(const char *at, int64_t most, int64_t *number) {
    char *end;
    if (*at < '1' || *at > '9')
        return NULL;
    *number = strtoll(at, &end, 10);
    return *number <= most ? end : NULL;
}

static qn_status parse_runs(const char *text, qn_placed *p) {
    const char *at = text;
    while (at && (*at == 'h' || *at == 'd')) {
        const bool is_device = *at == 'd';
        int64_t length = 0;
        at = read_number(at + 1, INT32_MAX - p->n_nodes, &length);
        if (at)
            add_run(p, is_device, (int32_t)length);
    }
    return at && *at == 0 && p->n_nodes > 0 ? QN_OK : refuse(text);
}

/* Places for the runs, none of which is there yet. */
static qn_status make_room(const qn_allocator *a, size_t n_runs, qn_placed *p) {
    p->capacity = n_runs + 1;
    return qn_allocate(a, p->capacity, sizeof *p->lengths, &p->lengths);
}

qn_status qn_placed_parse(const qn_allocator *a, const char *text, qn_placed *p) {
    enum { MOST_PIECES = 1 << 20 };
    size_t n_runs = 0;
    *p = (qn_placed){.is_given = text != NULL, .pieces = 1};
    if (!text)
        return QN_OK;
    const char *at = strchr(text, ':'), *runs = at ? at + 1 : text;
    if (at && read_number(text, MOST_PIECES, &p->pieces) != at)
        return refuse(text);
    p->is_all = strcmp(runs, "all") == 0;
    if (p->is_all)
        return QN_OK;
    for (const char *c = runs; *c; c++)
        n_runs += *c == 'h' || *c == 'd';
    QN_TRY(make_room(a, n_runs, p));
    const qn_status status = parse_runs(runs, p);
    if (status != QN_OK)
        qn_placed_deinit(a, p);
    return status;
}

qn_status qn_placed_take(const qn_allocator *a, const int16_t *site_of, int32_t n_nodes,
                         int64_t pieces, qn_placed *p) {
    size_t n_runs = 1;
    *p = (qn_placed){.is_given = true, .pieces = pieces};
    for (int32_t n = 1; n < n_nodes; n++)
        n_runs += (site_of[n] > 0) != (site_of[n - 1] > 0);
    QN_TRY(make_room(a, n_runs, p));
    for (int32_t n = 0; n < n_nodes; n++)
        add_run(p, site_of[n] > 0, 1);
    return QN_OK;
}

void qn_placed_deinit(const qn_allocator *a, qn_placed *p) {
    qn_release(a, p->lengths, p->capacity, sizeof *p->lengths);
    *p = (qn_placed){.pieces = 1};
}

/* A run of n nodes takes at most 2 n characters. */
size_t qn_placed_text_bytes(const qn_placed *p) {
    return NUMBER_TEXT + sizeof "all" + 2 * (size_t)p->n_nodes;
}

void qn_placed_print(const qn_placed *p, char *to, size_t bytes) {
    size_t at = 0;
    to[0] = 0;
    if (p->pieces > 1)
        at += (size_t)snprintf(to, bytes, "%lld:", (long long)p->pieces);
    if (p->is_all)
        snprintf(to + at, bytes - at, "all");
    for (size_t i = 0; i < p->n_runs; i++) {
        if (p->lengths[i] > 0)
            at += (size_t)snprintf(to + at, bytes - at, "%c%d", i % 2 ? 'd' : 'h', p->lengths[i]);
    }
}

static qn_status refuse_nodes(const qn_placed *p, int32_t n_nodes) {
    return qn_fail(QN_ERROR_ARGUMENT,
                   "the device's placement of %d operations is none of the %d operations of this "
                   "network; it is for the network that it was chosen for",
                   p->n_nodes, n_nodes);
}

qn_status qn_placed_fill(const qn_placed *p, int16_t *site_of, int32_t n_nodes) {
    if (!p->is_all && p->n_nodes != n_nodes)
        return refuse_nodes(p, n_nodes);
    for (int32_t n = 0; p->is_all && n < n_nodes; n++)
        site_of[n] = 1;
    for (size_t i = 0; i < p->n_runs; i++) {
        for (int32_t n = 0; n < p->lengths[i]; n++)
            *site_of++ = i % 2;
    }
    return QN_OK;
}
