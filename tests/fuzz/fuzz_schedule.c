/* Kept schedules: what is read has every step once, on cores that there are; kept in the cache and
 * loaded, it is the same; an input in place of the cache's file is read or refused. */
#include "fuzz/input.h"
#include "run/cores/schedule_file.h"

enum { STEPS = 4 };

static const qn_schedule_key key = {.machine = "host", .plan = 20, .n_cores = 3, .n_steps = STEPS};

static void check(const qn_timetable *t, const qn_schedule_times *times) {
    for (int32_t rank = 0; rank < STEPS; rank++) {
        const qn_turn *turn = &t->turns[t->order[rank]];
        if (turn->rank != rank || turn->first < 0 || turn->width < 1 ||
            turn->first + turn->width > key.n_cores || turn->behind < 0 || turn->behind > rank)
            abort();
    }
    if (!(times->predicted_ns >= 0) || !(times->bound_ns < 1e15))
        abort();
}

static void check_kept(const qn_timetable *t, const qn_schedule_times *times) {
    qn_schedule_times kept;
    qn_timetable read;
    if (qn_timetable_init(qn_allocator_default(), STEPS, &read) != QN_OK)
        abort();
    qn_schedule_save(&key, times, t);
    if (!qn_schedule_load(qn_allocator_default(), &key, &kept, &read) ||
        memcmp(read.order, t->order, STEPS * sizeof *t->order) != 0)
        abort();
    for (int32_t i = 0; i < STEPS; i++) {
        if (read.turns[i].first != t->turns[i].first || read.turns[i].width != t->turns[i].width ||
            read.turns[i].behind != t->turns[i].behind)
            abort();
    }
    qn_timetable_deinit(&read);
}

static void check_cache(const uint8_t *data, size_t size, qn_timetable *t) {
    static char name[256];
    qn_schedule_times times = {0};
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    if (!name[0]) {
        for (int32_t i = 0; i < STEPS; i++) {
            t->order[i] = i;
            t->turns[i] = (qn_turn){.width = 1, .rank = i};
        }
        check_kept(t, &times);
        input_find_cached("schedule-", name);
    }
    input_write(name, data, size);
    if (qn_schedule_load(&allocator, &key, &times, t))
        check(t, &times);
    input_check_memory(&f);
    qn_schedule_forget(&key);
    if (qn_schedule_load(qn_allocator_default(), &key, &times, t))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_schedule_times times;
    qn_timetable t;
    input_folder();
    if (qn_timetable_init(qn_allocator_default(), STEPS, &t) != QN_OK)
        return 0;
    if (qn_schedule_parse((const char *)data, size, &key, &times, &t)) {
        check(&t, &times);
        check_kept(&t, &times);
    }
    check_cache(data, size, &t);
    qn_timetable_deinit(&t);
    return 0;
}
