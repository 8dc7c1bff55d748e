/* What can run nodes, and the memory it runs them in. A device is a table of functions; a driver
 * (driver/driver.h) is what a user names to get one. ops/ defines operators; the device's own
 * tables define how it runs them. A null function is a feature that the device lacks; the comment
 * beside it says what that means.
 *
 * Asynchronous work of every kind is a queue: it executes work in order of submission, and each
 * piece of work raises the queue's timeline (os/timeline.h). Work names the values of other
 * timelines that it waits for; nothing else orders it.
 *
 * A lost device fails its timelines (qn_timeline_fail): whoever waits for one gets an error, and no
 * further work of the device is done. */
#ifndef QN_DEVICE_DEVICE_H
#define QN_DEVICE_DEVICE_H

#include "device/call.h"
#include "os/timeline.h"

/* ---- memory ---- */

/* A kind of memory. Spaces whose bytes come out of the same chips have the same `physical` and
 * share one budget. */
typedef struct qn_space {
    const char *name;   /* "host", "disk", "simulated" */
    int32_t physical;   /* row of QN_PHYSICAL below */
    bool is_host;       /* the host reads and writes it at any time, without map */
    size_t alignment;   /* of offsets and sizes; a power of two, at least QN_ALIGNMENT */
    size_t limit_bytes; /* that there are; 0: unknown */
} qn_space;

enum { QN_PHYSICAL_HOST, QN_PHYSICAL_DISK, QN_PHYSICAL_DEVICE };

/* Reserved memory of a space. `base` goes into calls, with offsets added to it, and is an address
 * that only the device understands unless the space is the host's. */
typedef struct qn_memory {
    int32_t space; /* row of the device's spaces */
    size_t bytes;
    char *base;
    void *handle; /* the device's own */
} qn_memory;

/* ---- queues ---- */

typedef struct qn_queue qn_queue;

/* A point in the work of a queue. */
typedef struct qn_fence {
    qn_timeline *timeline;
    uint64_t value; /* reached when the timeline is there or beyond */
} qn_fence;

/* A step of a plan as it is submitted. It stays as it is until it is done. */
typedef struct qn_work {
    const qn_call *call;   /* its team is the queue's to choose */
    const qn_fence *waits; /* (n_waits): reached before it begins */
    int32_t n_waits;
    int32_t item;    /* step of the plan, for records */
    bool is_to_host; /* of a node that copies: to the host's space; else from it */
    uint64_t done;   /* the queue's timeline, once it is done: one more than of the work before */
} qn_work;

/* Whether all that it waits for has come; and waits for it: false if some never will. */
bool qn_work_is_ready(const qn_work *work);
bool qn_work_wait(const qn_work *work);

/* What a queue records of the work that it does, and as what; events null: nothing. */
typedef struct qn_queue_watch {
    qn_events *events;
    int thread; /* ring of events that the queue puts into */
    qn_event label;
} qn_queue_watch;

/* Bytes of the host's that a queue takes to itself when it begins to copy them. */
enum { QN_TAKEN_AT_ONCE = 4096 };

typedef struct qn_queue_options {
    int n_threads;     /* of a device that is made of the host's processors */
    int most_operands; /* inputs and outputs that a call has at most */
    int32_t n_works;   /* that are submitted at once, at most */
} qn_queue_options;

/* ---- devices ---- */

struct qn_machine;

/* What a device is asked about: a node, or one that is to come. */
typedef struct qn_query {
    const qn_op *op;
    const void *attributes;
    int n_inputs, n_outputs;
    const qn_tensor *inputs, *outputs; /* of type QN_NONE: left out */
    int n_threads;                     /* that would take part, of a device of the host */
} qn_query;

/* What a device has done since it was opened, for the meter. */
typedef struct qn_device_counters {
    int64_t n_works, busy_ns;
    int64_t bytes_in, bytes_out; /* that were copied between its memory and the host's */
    int64_t n_idle; /* times that works came when it had nothing to do; of devices that can be
                       given works ahead */
} qn_device_counters;

/* What goes with a device that is emulated, so that its own times mean nothing: it records its
 * works with the time that they would take (qn_work_thread_record_as), which is that of what it
 * counts, and the CPU beside it is one that is assumed too. */
typedef struct qn_device_model {
    const char *counted; /* "packets" */
    double counts_per_ns;
    double cpu_watts, device_watts, idle_watts; /* as in qn_device_wish */
    double (*cpu_ns)(const qn_query *query, const qn_cost *cost);
} qn_device_model;

/* How fast a device of its own memory is. */
typedef struct qn_device_speed {
    double flops, bandwidth;            /* a second: f32 of a product; bytes read and written */
    double in_bandwidth, out_bandwidth; /* bytes a second from the host, and to it */
    double launch_ns; /* a kernel that does nearly nothing, started and waited for */
} qn_device_speed;

typedef struct qn_device {
    const char *name;

    /* Opens the device with options of its own. Null: it has no state, and the functions below get
     * null for it. */
    qn_status (*open)(const qn_allocator *allocator, const void *options, void **state);
    void (*close)(void *state);

    /* Whether it runs an operator with these types and shapes; null: every one. */
    bool (*supports)(const void *state, const qn_query *query);
    /* Bytes of scratch memory of a call; null: those that the CPU needs. */
    size_t (*workspace)(const struct qn_machine *machine, const void *state, const qn_query *query);
    /* Whether it has failed and does nothing any more; null: it cannot fail. */
    bool (*is_lost)(const void *state);
    /* Why it has; "" if it has not. Null: nobody knows. */
    const char *(*reason)(const void *state);
    /* Whether it has failed by its silence: it may still read and write what it was given, at any
     * time, until the process ends. Null: never. */
    bool (*is_silent)(const void *state);
    /* What one of several devices of a kind is called: "pthread-skylake". Null: as the kind. */
    const char *(*model_name)(const void *state);
    /* From now on work is cut into pieces of about so many ns, each followed by a pause, for a
     * device on which somebody else draws. Null: it cannot. */
    void (*set_pace)(void *state, int64_t piece_ns, int64_t pause_ns);
    /* Measures its speed, while it does nothing else. QN_ERROR_DEVICE: it was lost. Null: it is
     * not measured. */
    qn_status (*measure)(void *state, qn_device_speed *speed);
    /* Whether it works in the host's memory, so that nothing is copied: then it has no space of its
     * own, and what its work reads and writes comes from share. Null: it does not. */
    bool (*shares)(const void *state);
    /* Memory that the host and the device reach at any time at the same address, while no work is
     * submitted; and gives it back: false if it is none of that. */
    qn_status (*share)(void *state, size_t bytes, void **memory);
    bool (*unshare)(void *state, void *memory);
    /* Why a queue has failed, of a device that goes on nevertheless with what is submitted next;
     * which is then forgotten. While no work is done. Null: its queues fail only when it is lost.
     */
    qn_status (*take_failure)(void *state);

    /* Spaces of the device besides the host's, row 0 being what its work reads and writes. None:
     * it works in the host's memory. */
    int n_spaces;
    const qn_space *spaces;
    qn_status (*reserve)(void *state, int space, size_t bytes, qn_memory *memory);
    void (*release)(void *state, qn_memory *memory);
    /* Bytes of a memory where the host may read and write them until unmap, while no work touches
     * them. Null: the space cannot be mapped; copies alone reach it. */
    qn_status (*map)(void *state, const qn_memory *memory, size_t offset, size_t bytes, void **to);
    void (*unmap)(void *state, const qn_memory *memory, size_t offset, size_t bytes);
    /* Copies at once, while no work touches the bytes. QN_ERROR_DEVICE: the device is lost. */
    qn_status (*copy_in)(void *state, const qn_memory *memory, size_t offset, const void *from,
                         size_t bytes);
    qn_status (*copy_out)(void *state, const qn_memory *memory, size_t offset, void *to,
                          size_t bytes);

    /* Queues that work side by side. Null: there are none. */
    qn_status (*queue_open)(void *state, const qn_allocator *allocator,
                            const qn_queue_options *options, qn_queue **queue);
    void (*queue_close)(qn_queue *queue);
    qn_timeline *(*queue_timeline)(const qn_queue *queue);
    /* Gives it n works, while it has none. Never waits, fails or allocates: what goes wrong, the
     * timeline says. The queue is done with them when its timeline is at the last one's value, or
     * has failed. watch (may be null) lives as long. */
    void (*submit)(qn_queue *queue, const qn_work *works, int32_t n, const qn_queue_watch *watch);
    /* The same while it still has works, the last of which is at `from` of the timeline: those that
     * come count on from there. Only when the queue's second timeline is at `from`, which says how
     * many works have been begun, so that what they were called with may change: but for memory of
     * the host that is copied, if it is larger than QN_TAKEN_AT_ONCE. Null, both: it must have
     * none. */
    void (*submit_behind)(qn_queue *queue, const qn_work *works, int32_t n, uint64_t from);
    qn_timeline *(*queue_begun)(const qn_queue *queue);

    /* Estimated nanoseconds of a call that does so much. Null: only measuring tells. */
    double (*cost_ns)(const struct qn_machine *machine, const void *state, const qn_query *query,
                      const qn_cost *cost);
    const qn_device_model *model; /* null: its times are its own */
    /* Null: it counts nothing. */
    void (*counters)(const void *state, qn_device_counters *counters);

    /* Runs a node to its end on the calling thread and its team; null: only through queues. */
    void (*run)(const qn_call *call);
} qn_device;

extern const qn_device qn_device_cpu; /* which runs every operator */

#endif
