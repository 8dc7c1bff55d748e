/* The sampler: reads all sources at a fixed interval, on its own threads. Ticks do not drift: tick
 * k is due at begin + k * interval, and one that is a whole interval late is skipped and counted. A
 * program with no core to spare can run ticks itself; meanwhile the sampler's thread sleeps and
 * checks every few intervals whether that continues. A slow source has its own thread and ticks.
 * Memory is bounded: when it is full, neighbouring readings of the longest channels are merged in
 * pairs (the mean over time; the maximum for memory and temperatures), and so are later ones. */
#ifndef QN_METER_SAMPLER_H
#define QN_METER_SAMPLER_H

#include "meter/load.h"
#include "meter/sources/source.h"

typedef struct qn_sampler qn_sampler;

typedef struct qn_sampler_options {
    const qn_allocator *allocator;
    const qn_log *log;       /* what sources say, once each; may be null */
    int64_t interval_ns;     /* 1 ms to 1 s; 0: 10 ms */
    const char *root;        /* null: this device */
    int64_t pid;             /* 0: this process */
    const char *replay;      /* or null */
    const char *description; /* or null */
    size_t most_bytes;       /* of readings kept; 0: 4 MiB */
    void *user;
    void (*on_tick)(void *user); /* after every tick but that of start, on the thread that took it,
                                    one at a time; may be null */
} qn_sampler_options;

/* Opens all sources, allocates all memory; nothing is read before start. It can be started once. */
qn_status qn_sampler_create(const qn_sampler_options *options, qn_sampler **sampler);
void qn_sampler_destroy(qn_sampler *sampler);

/* Takes the first reading of all but slow sources before it returns. */
qn_status qn_sampler_start(qn_sampler *sampler);
/* Takes a tick on the calling thread if one is due at now_ns (of qn_clock_ns) and no other thread
 * takes it just now; slow sources are left to their threads. Returns when the next one is due. It
 * neither waits nor allocates; from any thread between start and destroy, after stop it does
 * nothing. */
int64_t qn_sampler_tick(qn_sampler *sampler, int64_t now_ns);

/* Takes a last reading of everything, so that readings reach to the end. */
void qn_sampler_stop(qn_sampler *sampler);

int qn_sampler_channel_count(const qn_sampler *sampler);
const qn_channel *qn_sampler_channel(const qn_sampler *sampler, int channel);

/* Whether a power channel's energy counts towards the whole: the system's own sensor if there is
 * one (once started: one that said anything), else every channel that lies inside no other (of
 * several sources that measure the processor, or the memory, those of the first); estimated ones
 * only where their part is not measured, and of the system only where nothing is. */
bool qn_sampler_counts(const qn_sampler *sampler, int channel);

/* Readings of a channel, oldest first. While it runs: only from on_tick. */
const qn_reading *qn_sampler_readings(const qn_sampler *sampler, int channel, size_t *n);

/* What sources said: a line each, "rapl: ..."; null past the end. */
const char *qn_sampler_said(const qn_sampler *sampler, int index);

typedef struct qn_sampler_cost {
    int64_t n_ticks, n_missed;
    int64_t busy_ns; /* processor time of its threads, and the time that ticks took on others,
                        on_tick included */
    size_t bytes;    /* held now */
} qn_sampler_cost;

qn_sampler_cost qn_sampler_get_cost(const qn_sampler *sampler);

/* The load of the machine as it was started and as it was stopped; not known where another process
 * is watched, since what that one starts would count as others'. */
void qn_sampler_get_load(const qn_sampler *sampler, qn_load *begin, qn_load *end);

/* The recorded tree that is sampled; null: this device. */
const char *qn_sampler_root(const qn_sampler *sampler);

#endif
