/* See schedule_file.h. */
#include "run/cores/schedule_file.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"
#include "os/files/cache_folder.h"
#include "os/os.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { HEAD_BYTES = 512, WORD_BYTES = 32, TIMES = 5, MOST_DIGITS = 9 };

/* Longest text of a step: four numbers of nine digits. */
enum { STEP_BYTES = 4 * (MOST_DIGITS + 1) };

static void print_head(const qn_schedule_key *key, char head[HEAD_BYTES]) {
    snprintf(head, HEAD_BYTES,
             "quern schedule 2\nmachine %s\nplan %016" PRIx64 "\ncores %d\nsteps %d\ntimes",
             key->machine, key->plan, key->n_cores, key->n_steps);
}

/* ---- reading ---- */

typedef struct reading {
    const char *at, *end;
} reading;

/* A number of digits alone behind one blank or at a line's begin; -1: there is none. */
static int32_t take_number(reading *r, char before) {
    int32_t number = 0;
    int digits = 0;
    if (before) {
        if (r->at == r->end || *r->at != before)
            return -1;
        r->at++;
    }
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (++digits > MOST_DIGITS)
            return -1;
        number = 10 * number + (*r->at - '0');
    }
    return digits > 0 ? number : -1;
}

static bool take_end_of_line(reading *r) {
    return r->at < r->end && *r->at++ == '\n';
}

/* " 79214900.5" */
static bool take_time(reading *r, double *ns) {
    char word[WORD_BYTES];
    size_t n = 0;
    if (r->at == r->end || *r->at++ != ' ')
        return false;
    while (r->at < r->end && *r->at != ' ' && *r->at != '\n') {
        if (n + 1 == sizeof word || *r->at == 0)
            return false;
        word[n++] = *r->at++;
    }
    word[n] = 0;
    return qn_decimal_parse(word, ns) && *ns >= 0 && *ns < 1e15;
}

static bool take_step(reading *r, const qn_schedule_key *key, int32_t rank, qn_timetable *t) {
    const int32_t step = take_number(r, 0), first = take_number(r, ' ');
    const int32_t width = take_number(r, ' '), behind = take_number(r, ' ');
    if (step < 0 || behind < 0 || behind > rank || step >= key->n_steps || first < 0 || width < 1 ||
        first >= key->n_cores || width > key->n_cores - first || !take_end_of_line(r) ||
        t->turns[step].width > 0)
        return false;
    t->turns[step] =
        (qn_turn){.first = (int16_t)first, .width = (int16_t)width, .rank = rank, .behind = behind};
    t->order[rank] = step;
    return true;
}

bool qn_schedule_parse(const char *text, size_t bytes, const qn_schedule_key *key,
                       qn_schedule_times *times, qn_timetable *t) {
    char head[HEAD_BYTES];
    reading r = {text, text + bytes};
    double ns[TIMES];
    print_head(key, head);
    const size_t length = strlen(head);
    if (bytes < length || memcmp(text, head, length) != 0)
        return false;
    r.at += length;
    for (int i = 0; i < TIMES; i++) {
        if (!take_time(&r, &ns[i]))
            return false;
    }
    if (!take_end_of_line(&r))
        return false;
    *times = (qn_schedule_times){ns[0], ns[1], ns[2], ns[3], ns[4]};
    memset(t->turns, 0, (size_t)key->n_steps * sizeof *t->turns);
    for (int32_t rank = 0; rank < key->n_steps; rank++) {
        if (!take_step(&r, key, rank, t))
            return false;
    }
    return r.at == r.end;
}

/* ---- where it is kept ---- */

/* One for each plan of a machine. */
static bool find_place(const qn_schedule_key *key, char path[PATH_MAX]) {
    char folder[PATH_MAX - 64], head[HEAD_BYTES];
    if (qn_folder_cache(folder, sizeof folder) != QN_OK)
        return false;
    print_head(key, head);
    snprintf(path, PATH_MAX, "%s/schedule-%016" PRIx64 ".txt", folder, qn_hash_text(head));
    return true;
}

static size_t most_bytes(const qn_schedule_key *key) {
    return HEAD_BYTES + TIMES * WORD_BYTES + (size_t)key->n_steps * STEP_BYTES;
}

static bool is_small(const char *path, const qn_schedule_key *key) {
    qn_file *file;
    if (qn_file_open(NULL, path, &file) != QN_OK)
        return false;
    const int64_t bytes = qn_file_bytes(file);
    qn_file_close(file);
    return bytes > 0 && (size_t)bytes <= most_bytes(key);
}

bool qn_schedule_is_kept(const qn_schedule_key *key) {
    char path[PATH_MAX];
    return find_place(key, path) && qn_path_is_file(path);
}

bool qn_schedule_load(const qn_allocator *allocator, const qn_schedule_key *key,
                      qn_schedule_times *times, qn_timetable *t) {
    char path[PATH_MAX], *text;
    size_t bytes;
    if (!find_place(key, path) || !qn_path_is_file(path) || !is_small(path, key) ||
        qn_file_read_whole(allocator, path, &text, &bytes) != QN_OK)
        return false;
    const bool is_read = qn_schedule_parse(text, bytes, key, times, t);
    qn_release(allocator, text, bytes + 1, 1);
    return is_read;
}

typedef struct saving {
    const qn_schedule_key *key;
    const qn_schedule_times *times;
    const qn_timetable *t;
} saving;

static qn_status write_text(void *context, qn_writer *writer) {
    const saving *s = context;
    const qn_schedule_times *times = s->times;
    char head[HEAD_BYTES], line[TIMES * WORD_BYTES];
    print_head(s->key, head);
    QN_TRY(qn_writer_put(writer, head, strlen(head)));
    int length = qn_print(line, sizeof line, " %.0f %.0f %.0f %.0f %.0f\n", times->one_by_one_ns,
                          times->predicted_ns, times->rehearsed_usual_ns, times->rehearsed_ns,
                          times->bound_ns);
    QN_TRY(qn_writer_put(writer, line, (size_t)length));
    for (int32_t rank = 0; rank < s->key->n_steps; rank++) {
        const int32_t step = s->t->order[rank];
        const qn_turn *turn = &s->t->turns[step];
        length = snprintf(line, sizeof line, "%d %d %d %d\n", step, turn->first, turn->width,
                          turn->behind);
        QN_TRY(qn_writer_put(writer, line, (size_t)length));
    }
    return QN_OK;
}

void qn_schedule_save(const qn_schedule_key *key, const qn_schedule_times *times,
                      const qn_timetable *t) {
    char path[PATH_MAX];
    saving s = {key, times, t};
    if (find_place(key, path))
        (void)qn_cache_replace(path, write_text, &s);
}

void qn_schedule_forget(const qn_schedule_key *key) {
    char path[PATH_MAX];
    if (find_place(key, path))
        qn_file_remove(path);
}
