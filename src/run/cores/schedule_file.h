/* The schedule that was the fastest in rehearsal, in the cache folder: a text found by machine,
 * threads and the steps of the plan, with a line for each step, in the order of begins: its number,
 * first core and width, and how many of those before have to be done. What is read is checked line
 * by line; whether the order is possible is the caller's to check. */
#ifndef QN_RUN_CORES_SCHEDULE_FILE_H
#define QN_RUN_CORES_SCHEDULE_FILE_H

#include "plan/schedule/timetable.h"

enum { QN_SCHEDULE_MACHINE = 128 };

/* Whose schedule it is. */
typedef struct qn_schedule_key {
    char machine[QN_SCHEDULE_MACHINE]; /* the host's name */
    uint64_t plan;                     /* hash of the engine and its steps */
    int n_cores;
    int32_t n_steps;
} qn_schedule_key;

/* Nanoseconds of a step, as found when the schedule was. */
typedef struct qn_schedule_times {
    double one_by_one_ns, predicted_ns, rehearsed_usual_ns, rehearsed_ns, bound_ns;
} qn_schedule_times;

/* Reads a text into the order and the cores of a timetable of key->n_steps tasks. False: it is
 * none, or of something else; the timetable may then hold anything. */
bool qn_schedule_parse(const char *text, size_t bytes, const qn_schedule_key *key,
                       qn_schedule_times *times, qn_timetable *timetable);

/* The same from the cache folder; false: none is kept, or it is not in order. */
/* Whether a file is there. */
bool qn_schedule_is_kept(const qn_schedule_key *key);

bool qn_schedule_load(const qn_allocator *allocator, const qn_schedule_key *key,
                      qn_schedule_times *times, qn_timetable *timetable);

/* Keeps one; a folder that cannot be written is no failure. */
void qn_schedule_save(const qn_schedule_key *key, const qn_schedule_times *times,
                      const qn_timetable *timetable);

/* It was not the fastest any more. */
void qn_schedule_forget(const qn_schedule_key *key);

#endif
