/* See client_store.h. The file: a head, then for each client two places of a header and n floats.
 */
#include "federate/client_store.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "os/files/record_file.h"
#include "os/heap.h"

#include <inttypes.h>
#include <string.h>

enum { N_PLACES = 2, HEAD_BYTES = 64 };

typedef struct head {
    char magic[8];
    int64_t n_clients, n;
    uint64_t run;
    int64_t n_rounds; /* synced */
    uint64_t sum;     /* of what stands before it */
} head;

typedef struct header {
    int64_t written; /* the round plus 1 */
    uint64_t sum;
} header;

struct qn_client_store {
    const qn_allocator *allocator;
    qn_record_file *file;
    head head;
    size_t record_bytes; /* a place's */
    char *place;         /* (record_bytes): header, floats */
    const char *path;    /* the caller's, for messages */
};

static uint64_t sum_of(const head *h) {
    return qn_hash_bytes(h, offsetof(head, sum));
}

static float *floats_of(const qn_client_store *s) {
    return (float *)(void *)(s->place + sizeof(header));
}

static int64_t offset_of(const qn_client_store *s, int64_t client, int place) {
    return HEAD_BYTES + (client * N_PLACES + place) * (int64_t)s->record_bytes;
}

/* Of what a record says: the round too, so that a place is not taken for another. */
static uint64_t sum_record(const qn_client_store *s, int64_t client, int64_t written) {
    const uint64_t sum = qn_hash_bytes(floats_of(s), (size_t)s->head.n * sizeof(float));
    return (sum ^ (uint64_t)client * UINT64_C(0x9E3779B97F4A7C15)) + (uint64_t)written;
}

qn_status qn_client_store_open(const qn_allocator *allocator, const char *path, int64_t n_clients,
                               int64_t n, uint64_t run, qn_client_store **store) {
    qn_client_store *s;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *s, &s));
    s->allocator = allocator;
    s->path = path ? path : "the clients' file";
    s->head = (head){.magic = "quernCS1", .n_clients = n_clients, .n = n, .run = run};
    s->record_bytes = sizeof(header) + ((size_t)n + n % 2) * sizeof(float);
    qn_status status = qn_allocate(allocator, s->record_bytes, 1, &s->place);
    if (status == QN_OK)
        status = qn_record_file_open(allocator, path, &s->file);
    if (status != QN_OK) {
        qn_client_store_close(s);
        return status;
    }
    *store = s;
    return QN_OK;
}

void qn_client_store_close(qn_client_store *s) {
    if (!s)
        return;
    qn_record_file_close(s->file);
    qn_release(s->allocator, s->place, s->record_bytes, 1);
    qn_release(s->allocator, s, 1, sizeof *s);
}

qn_status qn_client_store_begin(qn_client_store *s) {
    QN_TRY(qn_record_file_clear(s->file));
    return qn_client_store_sync(s, 0);
}

qn_status qn_client_store_resume(qn_client_store *s, int64_t n_rounds) {
    head found;
    QN_TRY(qn_record_file_read(s->file, 0, &found, sizeof found));
    s->head.n_rounds = found.n_rounds;
    s->head.sum = found.sum;
    if (memcmp(&found, &s->head, sizeof found) != 0 || found.sum != sum_of(&found) ||
        found.n_rounds < n_rounds)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s, with what clients keep, is not that of the checkpoint's %" PRId64
                       " rounds; both files belong together",
                       s->path, n_rounds);
    s->head.n_rounds = n_rounds;
    return QN_OK;
}

static qn_status read_headers(const qn_client_store *s, int64_t client, header found[N_PLACES]) {
    for (int i = 0; i < N_PLACES; i++)
        QN_TRY(qn_record_file_read(s->file, offset_of(s, client, i), &found[i], sizeof found[i]));
    return QN_OK;
}

/* The place of the newest record from before a round, or -1. */
static int find_newest(const header found[N_PLACES], int64_t round) {
    int newest = -1;
    for (int i = 0; i < N_PLACES; i++) {
        if (found[i].written > 0 && found[i].written <= round &&
            (newest < 0 || found[i].written > found[newest].written))
            newest = i;
    }
    return newest;
}

qn_status qn_client_store_read(qn_client_store *s, int64_t client, int64_t round,
                               const float **record) {
    header found[N_PLACES];
    QN_TRY(read_headers(s, client, found));
    const int place = find_newest(found, round);
    *record = NULL;
    if (place < 0)
        return QN_OK;
    QN_TRY(qn_record_file_read(s->file, offset_of(s, client, place) + (int64_t)sizeof(header),
                               floats_of(s), (size_t)s->head.n * sizeof(float)));
    if (found[place].sum != sum_record(s, client, found[place].written))
        return qn_fail(QN_ERROR_FORMAT, "%s: the record of client %" PRId64 " is damaged", s->path,
                       client);
    *record = floats_of(s);
    return QN_OK;
}

float *qn_client_store_room(qn_client_store *s) {
    return floats_of(s);
}

qn_status qn_client_store_write(qn_client_store *s, int64_t client, int64_t round) {
    header found[N_PLACES];
    QN_TRY(read_headers(s, client, found));
    const int kept = find_newest(found, s->head.n_rounds);
    const header h = {round + 1, sum_record(s, client, round + 1)};
    memcpy(s->place, &h, sizeof h);
    return qn_record_file_write(s->file, offset_of(s, client, kept == 0 ? 1 : 0), s->place,
                                s->record_bytes);
}

qn_status qn_client_store_sync(qn_client_store *s, int64_t n_rounds) {
    QN_TRY(qn_record_file_sync(s->file));
    s->head.n_rounds = n_rounds;
    s->head.sum = sum_of(&s->head);
    QN_TRY(qn_record_file_write(s->file, 0, &s->head, sizeof s->head));
    return qn_record_file_sync(s->file);
}
