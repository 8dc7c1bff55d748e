/* The cores that operations are scheduled on, and how long an operation takes on some of them: the
 * performance model. A core is known by its number: those of the first kind come first. An
 * operation runs on neighbours. Everything is an estimate; results never depend on it.
 *
 *     time on cores F = serial / speed of the first + (alone - serial) / sum of speeds in F
 *                       + thread_ns * (|F| - 1), and no less than memory needs for its bytes
 *
 * where the speed of a core is relative to one of kind 0, by the roofline of the operation. */
#ifndef QN_PLAN_SCHEDULE_CORES_H
#define QN_PLAN_SCHEDULE_CORES_H

#include "device/speed.h"

enum {
    QN_CORES_HELP = 2, /* `help` of those that run plans here (qn_plan_team_size) */
    QN_MAX_CORES = 64,
    QN_MAX_CORE_KINDS = 4,
    QN_CORE_NAME = 16,
    QN_MAX_CORE_LEVELS = 8,
    QN_MAX_CORE_CACHES = 4
};

/* Cores that are alike. */
typedef struct qn_core_kind {
    char name[QN_CORE_NAME]; /* "big" */
    int n;
    double flops_per_ns, bytes_per_ns; /* of one */
    double watts;                      /* that one takes while it works, above the idle machine */
} qn_core_kind;

/* A frequency that all cores can be set to: parts of the speed and of the watts. */
typedef struct qn_core_level {
    double speed, watts;
} qn_core_level;

/* What a core walks through at a rate, and at what other one while all others use the memory. */
typedef struct qn_core_cache {
    double bytes; /* that it holds; of the last: any number */
    double bytes_per_ns, beside_bytes_per_ns;
} qn_core_cache;

/* Invariants: n = sum of kinds[i].n; 1 <= n <= QN_MAX_CORES; all rates above 0. */
typedef struct qn_cores {
    int n_kinds, n;
    qn_core_kind kinds[QN_MAX_CORE_KINDS]; /* (n_kinds) */
    double bytes_per_ns;                   /* of the memory, for all cores together */
    double near_bytes;                     /* of an operation: they are in caches of the core */
    double call_ns, thread_ns;             /* that an operation costs, and each further thread */
    double wait_ns;                        /* until a core knows that another one is done */
    int help; /* threads of an operation at most, for each of its width; 1: its own alone */
    double idle_watts;                        /* of the machine when nothing works */
    int n_levels;                             /* below the full speed */
    qn_core_level levels[QN_MAX_CORE_LEVELS]; /* (n_levels) */
    double speed;                             /* part of the full one that kinds are at */
    int n_caches;                             /* 0: not measured; the memory is the last */
    qn_core_cache caches[QN_MAX_CORE_CACHES]; /* (n_caches), the nearest first */
} qn_cores;

/* So many cores of a kind that is typical of this processor's instruction set. */
qn_cores qn_cores_typical(int n);

/* Describes a machine by lines (docs/cores.md). QN_ERROR_FORMAT names the line. */
qn_status qn_cores_parse(const char *text, size_t bytes, qn_cores *cores);

/* The kind of a core. */
int qn_cores_kind(const qn_cores *cores, int core);

/* The same cores at a level; 0: the full speed, else levels[level - 1]. */
qn_cores qn_cores_at(const qn_cores *cores, int level);

/* The cores of a machine that remain where so many of each kind are used; kinds of none go. */
qn_cores qn_cores_part(const qn_cores *cores, const int n_of_kind[QN_MAX_CORE_KINDS]);

/* What is known of an operation. */
typedef struct qn_curve {
    double alone_ns;     /* on one core of kind 0 */
    double serial_ns;    /* of it: what further threads do not share */
    double flops, bytes; /* of a call */
    double least_ns;     /* that it was seen to take: its bytes do not take longer; 0: never seen */
    double thread_ns;    /* of each further thread */
} qn_curve;

/* By the roofline alone. */
qn_curve qn_curve_estimate(const qn_cores *cores, const qn_cost *cost);

/* From times with one thread and with `width` ones, both on cores of kind 0. */
qn_curve qn_curve_fit(const qn_cores *cores, const qn_cost *cost, double alone_ns, double wide_ns,
                      int width);

/* Nanoseconds on cores first to first + width - 1. */
double qn_curve_ns(const qn_curve *curve, const qn_cores *cores, int first, int width);

/* Of the bytes that are not in caches, by the memory alone. */
double qn_curve_memory_ns(const qn_curve *curve, const qn_cores *cores);

/* Of a core, where one of kind 0 has 1. */
double qn_curve_speed(const qn_curve *curve, const qn_cores *cores, int core);

/* Nanoseconds where so many others with a sum of speeds take part. */
double qn_curve_helped_ns(const qn_curve *curve, const qn_cores *cores, int first, int width,
                          int n_others, double speed_of_others);

/* The part of the memory's bandwidth that a call needs which takes ns. */
double qn_curve_demand(const qn_curve *curve, const qn_cores *cores, double ns);

/* The part that it takes longer while others use all of the memory: where its bytes go through a
 * cache that is slower then. 0: nothing is known of the caches. */
double qn_curve_disturbance(const qn_curve *curve, const qn_cores *cores, double ns);

#endif
