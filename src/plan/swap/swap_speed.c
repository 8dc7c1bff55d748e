/* See swap_speed.h. The cached text has a line for each of machine, folder, write, read (bytes per
 * second), latency (ns) and work (ns of processor time for a GiB). */
#include "plan/swap/swap_speed.h"

#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"
#include "os/files/cache_folder.h"
#include "os/files/swap_file.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/cpu_time.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Requests under way at once, each of so many bytes; the file holds MOST_REQUESTS of them. */
enum { UNDER_WAY = 4, REQUEST_BYTES = 1 << 20, MOST_REQUESTS = 64, LATENCIES = 9 };

#define ENOUGH_NS INT64_C(250000000)

/* ---- measuring ---- */

typedef struct measuring {
    qn_swap_file *swap;
    char *memory; /* (UNDER_WAY, REQUEST_BYTES) */
    int n;        /* requests in a pass: fewer on a slow disk */
    uint64_t sums[MOST_REQUESTS];
} measuring;

static void begin(measuring *m, bool is_write, int i) {
    const int64_t offset = (int64_t)i * REQUEST_BYTES;
    char *memory = m->memory + (size_t)(i % UNDER_WAY) * REQUEST_BYTES;
    if (is_write)
        qn_swap_file_begin_write(m->swap, i, offset, memory, REQUEST_BYTES);
    else /* the same bytes come to the same place */
        qn_swap_file_begin_read(m->swap, i, offset, memory, REQUEST_BYTES);
}

static void end(measuring *m, bool is_write, int i) {
    if (is_write)
        m->sums[i] = qn_swap_file_end_write(m->swap, i);
    else
        qn_swap_file_end_read(m->swap, i, m->sums[i]);
}

/* One pass over the first m->n requests of the file, or as far as time allows; then m->n is how
 * far. */
static int64_t pass_over(measuring *m, bool is_write) {
    const int64_t begin_ns = qn_clock_ns();
    int n_begun = 0, n_ended = 0;
    while (n_ended < m->n) {
        const bool has_time = n_begun == 0 || qn_clock_ns() - begin_ns < ENOUGH_NS;
        if (!has_time && n_begun < m->n)
            m->n = n_begun;
        if (n_begun < m->n && n_begun - n_ended < UNDER_WAY)
            begin(m, is_write, n_begun++);
        else
            end(m, is_write, n_ended++);
    }
    return qn_clock_ns() - begin_ns;
}

static int by_size(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The middle one of some single blocks, written and read. */
static int64_t measure_latency(measuring *m) {
    int64_t times_ns[LATENCIES];
    for (int i = 0; i < LATENCIES; i++) {
        const int64_t begin_ns = qn_clock_ns();
        qn_swap_file_begin_write(m->swap, 0, 0, m->memory, QN_SWAP_FILE_BLOCK);
        const uint64_t sum = qn_swap_file_end_write(m->swap, 0);
        qn_swap_file_begin_read(m->swap, 0, 0, m->memory, QN_SWAP_FILE_BLOCK);
        qn_swap_file_end_read(m->swap, 0, sum);
        times_ns[i] = (qn_clock_ns() - begin_ns) / 2;
    }
    qsort(times_ns, LATENCIES, sizeof *times_ns, by_size);
    return times_ns[LATENCIES / 2];
}

static qn_status measure(measuring *m, qn_swap_speed *speed) {
    qn_rng rng = qn_rng_make(1, 2, 3);
    for (uint64_t i = 0; i < UNDER_WAY * REQUEST_BYTES / 16;
         i++) /* nothing that a disk could make smaller */
        qn_rng_block(rng, i, (uint32_t *)(void *)m->memory + 4 * i);
    m->n = MOST_REQUESTS;
    pass_over(m, true); /* a first write is slower than those that follow */
    const int64_t work_ns = qn_process_cpu_ns(qn_process_id());
    const int64_t write_ns = pass_over(m, true), n_written = m->n;
    const int64_t read_ns = pass_over(m, false), n_read = m->n;
    const int64_t worked_ns = qn_process_cpu_ns(qn_process_id()) - work_ns;
    const int64_t latency_ns = measure_latency(m);
    QN_TRY(qn_swap_file_settle(m->swap));
    *speed = (qn_swap_speed){
        .write_bytes_per_ns = (double)(n_written * REQUEST_BYTES) / (double)(write_ns + 1),
        .read_bytes_per_ns = (double)(n_read * REQUEST_BYTES) / (double)(read_ns + 1),
        .latency_ns = latency_ns,
        .work_ns_per_byte =
            (double)(worked_ns + 1) / (double)((n_written + n_read) * REQUEST_BYTES)};
    return QN_OK;
}

qn_status qn_swap_speed_measure(const qn_allocator *allocator, const char *folder,
                                qn_swap_speed *speed) {
    const int64_t bytes = (int64_t)MOST_REQUESTS * REQUEST_BYTES;
    measuring m = {.swap = NULL};
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_swap_file_open(allocator, folder, bytes, MOST_REQUESTS, &m.swap));
    qn_status status = qn_allocate(allocator, UNDER_WAY, REQUEST_BYTES, &m.memory);
    if (status == QN_OK)
        status = measure(&m, speed);
    qn_swap_file_close(m.swap);
    qn_release(allocator, m.memory, UNDER_WAY, REQUEST_BYTES);
    return status;
}

/* ---- keeping ---- */

/* The rest of a line that begins with a word and a space; the text goes on behind the line. Null:
 * it begins otherwise, or does not end. */
static const char *take_line(const char **text, const char *end, const char *word, size_t *bytes) {
    const size_t length = strlen(word);
    const char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop || (size_t)(stop - line) < length + 1 || memcmp(line, word, length) != 0 ||
        line[length] != ' ')
        return NULL;
    *text = stop + 1;
    *bytes = (size_t)(stop - line) - length - 1;
    return line + length + 1;
}

static bool take_name(const char **text, const char *end, const char *word, const char *name) {
    size_t bytes;
    const char *found = take_line(text, end, word, &bytes);
    return found && bytes == strlen(name) && memcmp(found, name, bytes) == 0;
}

/* A whole number above 0 of at most 15 digits. */
static bool take_number(const char **text, const char *end, const char *word, int64_t *number) {
    size_t bytes;
    const char *digits = take_line(text, end, word, &bytes);
    *number = 0;
    for (size_t i = 0; digits && i < bytes; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        *number = *number * 10 + (digits[i] - '0');
        if (i == 15)
            return false;
    }
    return *number > 0;
}

bool qn_swap_speed_parse(const char *text, size_t bytes, const char *machine, const char *folder,
                         qn_swap_speed *speed) {
    const char *end = text + bytes;
    int64_t write, read, latency_ns, work_ns;
    if (!take_name(&text, end, "machine", machine) || !take_name(&text, end, "folder", folder) ||
        !take_number(&text, end, "write", &write) || !take_number(&text, end, "read", &read) ||
        !take_number(&text, end, "latency", &latency_ns) ||
        !take_number(&text, end, "work", &work_ns) || text != end)
        return false;
    *speed = (qn_swap_speed){(double)write * 1e-9, (double)read * 1e-9, latency_ns,
                             (double)work_ns / (1 << 30)};
    return true;
}

/* Of what a speed is, and where it is kept. */
typedef struct keeping {
    char machine[256], folder[PATH_MAX], path[PATH_MAX];
    qn_swap_speed speed;
} keeping;

static qn_status find_names(const char *folder, keeping *k) {
    char names[sizeof k->machine + sizeof k->folder + 1], cache[PATH_MAX];
    qn_host_name(k->machine, sizeof k->machine);
    QN_TRY(qn_path_resolve(folder, k->folder, sizeof k->folder));
    QN_TRY(qn_folder_cache(cache, sizeof cache));
    snprintf(names, sizeof names, "%s %s", k->machine, k->folder);
    const int length =
        snprintf(k->path, sizeof k->path, "%s/swap-%016" PRIx64 ".txt", cache, qn_hash_text(names));
    return length > 0 && (size_t)length < sizeof k->path
               ? QN_OK
               : qn_fail(QN_ERROR_ARGUMENT, "the path of the cache folder is too long");
}

static bool load(const qn_allocator *allocator, keeping *k) {
    char *text;
    size_t bytes;
    if (!qn_path_is_file(k->path) || qn_file_read_whole(allocator, k->path, &text, &bytes) != QN_OK)
        return false;
    const bool is_good = qn_swap_speed_parse(text, bytes, k->machine, k->folder, &k->speed);
    qn_release(allocator, text, bytes + 1, 1);
    return is_good;
}

static qn_status write_text(void *context, qn_writer *writer) {
    const keeping *k = context;
    char numbers[128];
    const char *const pieces[] = {"machine ", k->machine, "\nfolder ", k->folder, numbers};
    qn_print(numbers, sizeof numbers, "\nwrite %.0f\nread %.0f\nlatency %" PRId64 "\nwork %.0f\n",
             k->speed.write_bytes_per_ns * 1e9, k->speed.read_bytes_per_ns * 1e9,
             k->speed.latency_ns, k->speed.work_ns_per_byte * (1 << 30));
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        QN_TRY(qn_writer_put(writer, pieces[i], strlen(pieces[i])));
    return QN_OK;
}

static qn_status get(const qn_allocator *allocator, const char *folder, keeping *k) {
    const bool has_place = find_names(folder, k) == QN_OK;
    if (has_place && load(allocator, k))
        return QN_OK;
    QN_TRY(qn_swap_speed_measure(allocator, folder, &k->speed));
    if (has_place)
        (void)qn_cache_replace(k->path, write_text, k);
    return QN_OK;
}

qn_status qn_swap_speed_get(const qn_allocator *allocator, const char *folder,
                            qn_swap_speed *speed) {
    keeping *k;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *k, &k));
    const qn_status status = get(allocator, folder, k);
    if (status == QN_OK)
        *speed = k->speed;
    qn_release(allocator, k, 1, sizeof *k);
    return status;
}
