/* See users.h. */
#include "federate/partition/users.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/text/words.h"
#include "federate/partition/lines.h"
#include "os/heap.h"

#include <string.h>

typedef struct users {
    qn_arena arena;
    const char *path;
    qn_lines lines;
    int64_t n;
    qn_words names; /* from QN_FIRST_WORD on: the users, by their numbers of samples */
} users;

static qn_status count_users(users *u, qn_word_table *counted) {
    qn_lines lines = u->lines;
    const char *line;
    size_t bytes;
    int64_t n = 0;
    for (; qn_lines_next(&lines, &line, &bytes); n++) {
        if (bytes == 0 || memchr(line, 0, bytes))
            return qn_fail(QN_ERROR_FORMAT, "%s: line %lld names no user", u->path,
                           (long long)n + 1);
        QN_TRY(qn_word_table_add(counted, line, bytes));
    }
    if (n != u->n)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s has %lld lines, and there are %lld training samples: line i is the user "
                       "of sample i",
                       u->path, (long long)n, (long long)u->n);
    return QN_OK;
}

static qn_status find_users(users *u) {
    qn_word_table counted = {.arena = &u->arena};
    qn_status status = count_users(u, &counted);
    if (status == QN_OK)
        status = qn_words_choose(&u->arena, &counted, INT32_MAX, 1, &u->names);
    qn_word_table_deinit(&counted);
    return status;
}

static int64_t client_of(const users *u, const char *line, size_t bytes, int64_t n_clients) {
    return (qn_words_find(&u->names, line, bytes) - QN_FIRST_WORD) % n_clients;
}

/* Counts, then puts each sample behind those of its client before it. */
static void divide(const users *u, qn_partition *p, int64_t *next) {
    qn_lines lines = u->lines;
    const char *line;
    size_t bytes;
    while (qn_lines_next(&lines, &line, &bytes))
        p->first[client_of(u, line, bytes, p->n_clients) + 1]++;
    for (int64_t i = 0; i < p->n_clients; i++) {
        next[i] = p->first[i];
        p->first[i + 1] += p->first[i];
    }
    lines = u->lines;
    for (int64_t i = 0; qn_lines_next(&lines, &line, &bytes); i++)
        p->samples[next[client_of(u, line, bytes, p->n_clients)]++] = i;
}

static qn_status make(users *u, int64_t n_clients, qn_partition *p) {
    QN_TRY(qn_lines_read(&u->arena, u->path, &u->lines));
    QN_TRY(find_users(u));
    const int64_t n_users = u->names.n - QN_FIRST_WORD;
    if (n_clients < 1 || n_clients > n_users)
        return qn_fail(QN_ERROR_ARGUMENT, "%lld clients, and %s names %lld users; --clients %lld",
                       (long long)n_clients, u->path, (long long)n_users, (long long)n_users);
    int64_t *next = qn_arena_allocate(&u->arena, (size_t)n_clients, sizeof *next);
    if (!next)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_allocate(p->allocator, (size_t)n_clients + 1, sizeof *p->first, &p->first));
    QN_TRY(qn_allocate(p->allocator, (size_t)u->n, sizeof *p->samples, &p->samples));
    divide(u, p, next);
    return QN_OK;
}

qn_status qn_partition_users(const qn_allocator *allocator, const char *path, int64_t n,
                             int64_t n_clients, qn_partition *partition) {
    users u = {.path = path, .n = n};
    *partition = (qn_partition){
        .allocator = qn_allocator_or_default(allocator), .n_clients = n_clients, .n_samples = n};
    qn_arena_init(&u.arena, partition->allocator);
    const qn_status status = make(&u, n_clients, partition);
    qn_words_deinit(&u.names);
    qn_arena_deinit(&u.arena);
    if (status != QN_OK)
        qn_partition_destroy(partition);
    return status;
}
