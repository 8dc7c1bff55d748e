/* Sources of samples: what a device reports about itself. A source is one file of meter/ and one
 * row of qn_source_kinds. All paths are read below a root, so that a recorded tree of files can
 * stand for a device. */
#ifndef QN_METER_SOURCES_SOURCE_H
#define QN_METER_SOURCES_SOURCE_H

#include "quern/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum qn_quantity {
    QN_QUANTITY_UTILISATION, /* active time / time: 0 to 1 of a core or GPU; of a process: cores */
    QN_QUANTITY_FREQUENCY,   /* hertz */
    QN_QUANTITY_MEMORY,      /* bytes */
    QN_QUANTITY_POWER,       /* watts */
    QN_QUANTITY_TEMPERATURE, /* degrees Celsius */
    QN_QUANTITY_COUNT
} qn_quantity;

/* What of the device a channel is about. */
typedef enum qn_part {
    QN_PART_SYSTEM, /* all of it: the input rail, the battery */
    QN_PART_CPU,    /* all cores: a package, a CPU rail */
    QN_PART_CORE,   /* one core: index is its number */
    QN_PART_GPU,
    QN_PART_MEMORY,
    QN_PART_SOC,     /* the rest of the chip */
    QN_PART_PROCESS, /* the process that is watched */
    QN_PART_THREAD,  /* one thread of it */
    QN_PART_OTHER,
    QN_PART_COUNT
} qn_part;

/* One number that a source gives over time. (source, name, quantity) is unique. */
typedef struct qn_channel {
    char name[48];      /* "cpu0", "package-0", "VDD_SYS_GPU" */
    const char *source; /* name of its kind */
    qn_quantity quantity;
    qn_part part;
    int32_t index;     /* core number, package, GPU; 0 where there is one */
    int32_t inside;    /* power: the channel of the same source that includes this one, or -1 */
    bool is_estimated; /* made from a model, not measured: said wherever the number appears */
} qn_channel;

/* A channel's value over a stretch of time. Utilisation, frequency and power are means over
 * (begin_ns, end_ns]; memory and temperature are as of end_ns. A channel's readings follow one
 * another without gaps where it is measured without interruption, and never overlap. */
typedef struct qn_reading {
    int64_t begin_ns, end_ns; /* of qn_clock_ns */
    double value;
} qn_reading;

typedef struct qn_source_options {
    const qn_allocator *allocator;
    const char *root;   /* "" (this device), or the folder of a recorded tree, without '/' at its
                                end: files are root + "/sys/..." and root + "/proc/..." */
    bool is_recorded;   /* root is a recorded tree: nothing but its files may be looked at */
    int64_t pid;        /* the process that is watched */
    const char *replay; /* file of recorded power for the source "replay", or null */
    const char *description; /* file of coefficients for the source "model", or null */
    void *user;
    /* Says something once: a sensor that is not there and why, or that is lost. May be called from
     * any thread. Texts are complete: what, why, what to do ("/sys/.../energy_uj: permission
     * denied; run as root, or give it read permission"). */
    void (*say)(void *user, const char *source, const char *text);
} qn_source_options;

typedef struct qn_source_kind {
    const char *name;  /* "rapl" */
    const char *about; /* what it reads, in a line */
    int64_t period_ns; /* no faster than its hardware refreshes; 0: as fast as asked */
    bool is_slow;      /* one reading may take milliseconds: it gets a thread of its own */
    /* Looks for what there is. Nothing there is no failure: *source is null then, and why has been
     * said where a user would ask. Fails for lack of memory, and where a file that the user named
     * cannot be used. */
    qn_status (*open)(const qn_source_options *options, void **source);
    /* Its channels; they stay the same until close. */
    const qn_channel *(*channels)(const void *source, int *n);
    /* readings (n), one for each channel, preset to 0: end_ns stays 0 where there is nothing new.
     * Never a wrong number: what cannot be read is left out and said once. The first call may give
     * nothing. Allocates nothing. */
    void (*read)(void *source, int64_t now_ns, qn_reading *readings);
    /* Whether what was read last is likely to stay, so that it is enough to read less often; not of
     * a slow one. Null: never. */
    bool (*is_steady)(const void *source);
    /* How many of its channels, from the first on, have ever had anything to give; null: all. */
    int (*in_use)(const void *source);
    /* A source that works its numbers out from another one's: that one's name, which stands before
     * it in the list and is never steady; this one is read whenever that one is. follow gives it
     * what that one has just read; it is then not read a second time. Null: from none. */
    const char *follows;
    void (*follow)(void *source, const qn_reading *readings);
    void (*close)(void *source);
} qn_source_kind;

/* All kinds, in the order in which a source of whole-system power is preferred; null at the end. */
extern const qn_source_kind *const qn_source_kinds[];

#endif
