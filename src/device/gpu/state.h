/* The inside of a GPU, and what a driver has to offer it: for the files of this folder and the
 * drivers. */
#ifndef QN_DEVICE_GPU_STATE_H
#define QN_DEVICE_GPU_STATE_H

#include "device/gpu/gpu.h"
#include "device/gpu/measure.h"
#include "device/machine.h"

/* ---- kernels ---- */

/* Those that make tiles of sums, in groups of a fixed size; then all others. */
/* clang-format off */
#define QN_GPU_TILED(K) K(product) K(convolve) K(convolve_data) K(convolve_filter)
#define QN_GPU_KERNELS(K)                                                                          \
    QN_GPU_TILED(K)                                                                                \
    K(add_parts) K(depthwise) K(depthwise_data) K(depthwise_filter) K(pool_largest) K(pool_mean)   \
    K(pool_backward) K(activation) K(activation_backward) K(add) K(multiply_all) K(scale) K(bias)  \
    K(broadcast) K(gelu) K(gelu_backward) K(dropout) K(copy_rows) K(widen) K(transpose) K(embed)   \
    K(embed_backward) K(sum_columns) K(finish_columns) K(norm_gradients) K(norm_apply)             \
    K(norm_backward) K(layer_norm) K(layer_norm_backward) K(softmax) K(softmax_backward)           \
    K(cross_entropy) K(cross_entropy_backward) K(sum_chunks) K(mean_valid) K(reduce_sum)           \
    K(reduce_most) K(reduce_backward) K(attention_weights) K(attention_slopes) K(lstm_cell)        \
    K(lstm_cell_backward) K(lstm_before) K(sgd) K(adam) K(move_statistics) K(sum_squares)          \
    K(clip_factor)
/* clang-format on */

typedef enum qn_gpu_kernel {
#define QN_GPU_NUMBER(name) QN_GPU_##name,
    QN_GPU_KERNELS(QN_GPU_NUMBER)
#undef QN_GPU_NUMBER
        QN_GPU_KERNEL_COUNT
} qn_gpu_kernel;

extern const char *const qn_gpu_kernel_names[QN_GPU_KERNEL_COUNT];

/* Whether it works in groups of the tile's size. */
bool qn_gpu_is_tiled(qn_gpu_kernel kernel);

/* What a kernel gets beside the memory; kernels/common.cl has the same. */
typedef struct qn_gpu_arguments {
    uint64_t p[12];
    int32_t n[32];
    float f[8];
} qn_gpu_arguments;

/* The tile of the tiled kernels: items of a group; parts, rows and vectors of an item. */
typedef struct qn_gpu_tile {
    int lx, ly, parts_m, parts_n, micro_m, micro_v, lanes, k;
} qn_gpu_tile;

static inline int qn_gpu_tile_rows(const qn_gpu_tile *t) {
    return t->ly * t->parts_m * t->micro_m;
}

static inline int qn_gpu_tile_columns(const qn_gpu_tile *t) {
    return t->lx * t->parts_n * t->micro_v * t->lanes;
}

/* For groups of at most so many items; and where one thread does a group's items in turn, with so
 * much local memory. */
qn_gpu_tile qn_gpu_choose_tile(size_t group_size, bool is_serial, uint64_t local_bytes);

/* The tile as options of a compiler: "-DLX=16 -DLY=16 ..."; the size of a text that holds them. */
enum { QN_GPU_DEFINITIONS = 200 };
void qn_gpu_define_tile(const qn_gpu_tile *tile, char to[QN_GPU_DEFINITIONS]);

/* The texts of all kernels, without the prelude that maps their words to a driver's language; and
 * the preludes. */
enum { QN_GPU_TEXTS = 6 };
extern const char *const qn_gpu_texts[QN_GPU_TEXTS];
extern const char *const qn_gpu_opencl_prelude, *const qn_gpu_cuda_prelude;

/* ---- the device ---- */

enum { QN_GPU_MOST_MEMORIES = 16, QN_GPU_GROUP_ITEMS = 64 };

/* Marks that a stream has at once; the first is qn_gpu_finish's. And bytes of the host's memory by
 * way of which small copies go. */
enum { QN_GPU_MARKS = 8, QN_GPU_ROOM_BYTES = 64 << 10 };

typedef struct qn_gpu_buffer {
    void *memory; /* the driver's; null: free */
    uintptr_t base;
    size_t bytes;
} qn_gpu_buffer;

/* Memory of the host in which it works: an address in a call is the host's. Kernels get the first
 * piece, which is the device's own, and how far from it the others are. */
typedef struct qn_gpu_shared {
    bool is_used;
    qn_gpu_buffer origin;
    int n_pieces, version; /* version: changes with the pieces */
    size_t capacity;
    void **pieces; /* (n_pieces) */
} qn_gpu_shared;

struct qn_gpu_driver;

/* Where another program uses the device, too: kernels are cut into pieces of so long, with pauses
 * behind them. What a launch takes is known from the one before of its kind and extent. */
enum { QN_GPU_KNOWN_LAUNCHES = 512 };

typedef struct qn_gpu_pace {
    int64_t piece_ns, pause_ns; /* 0: nothing is cut */
    int64_t since_pause_ns;
    float known_ns[QN_GPU_KNOWN_LAUNCHES]; /* by a hash of the launch; 0: unknown */
} qn_gpu_pace;

typedef struct qn_gpu {
    const qn_allocator *allocator;
    const struct qn_gpu_driver *driver;
    void *context; /* the driver's own */
    char name[128];
    uint64_t most_allocation_bytes;
    qn_gpu_tile tile;
    qn_gpu_buffer buffers[QN_GPU_MOST_MEMORIES]; /* changed while no work is done */
    uintptr_t next_base;
    bool can_share;  /* the host and it reach the same memory at any time */
    bool can_record; /* its driver has lists of kernels */
    qn_gpu_shared shared;
    int64_t patience_ns, longest_ns; /* longest_ns: atomic */
    bool is_lost;                    /* atomic; behind the reason */
    bool is_silent;                  /* atomic: it may still work on something, forever */
    char reason[160];
    qn_device_counters counters; /* atomic, each by itself */
    qn_gpu_pace pace;            /* used by one queue at a time */
    char *room; /* (QN_GPU_ROOM_BYTES), likewise: the device may write there until it is closed */
} qn_gpu;

/* Memory that a silent device may still use is its own from now on; a search for lost memory sees
 * that it is not lost. */
void qn_gpu_leave(const void *memory);

/* A launch: items along x, y, z (z: of tiled kernels), or, of a tiled one, groups; of which those
 * from first on are started (in whole groups; 0 for a driver that cannot start a part). */
typedef struct qn_gpu_launch {
    qn_gpu_kernel kernel;
    const qn_gpu_buffer *buffer;
    const qn_gpu_arguments *arguments;
    size_t x, y, z;
    size_t first[3];
} qn_gpu_launch;

/* What a driver does. Those that return bool say false once they have lost the device
 * (qn_gpu_lose). Streams do their work in order, each from one thread. */
typedef struct qn_gpu_driver {
    const char *kind; /* "OpenCL" */
    bool can_start_parts;
    /* Fills name, most_allocation_bytes, can_share, tile and context, with the kernels compiled;
     * what it opened, close closes, also after a failure. can_record, where it has the functions
     * below. */
    qn_status (*open)(qn_gpu *gpu, int number);
    void (*close)(qn_gpu *gpu);
    qn_status (*reserve)(qn_gpu *gpu, size_t bytes, void **memory);
    void (*release)(qn_gpu *gpu, void *memory);
    bool copies_to_shared; /* copies that are not waited for need memory that share gave */
    /* Memory of the host that kernels reach at the same address; null: there is none. */
    void *(*share)(qn_gpu *gpu, size_t bytes);
    void (*unshare)(qn_gpu *gpu, void *memory);
    qn_status (*stream_open)(qn_gpu *gpu, void **stream);
    void (*stream_close)(qn_gpu *gpu, void *stream);
    bool (*launch)(qn_gpu *gpu, void *stream, const qn_gpu_launch *launch);
    /* From begin to end (null: there is no list) launches of a stream are put into a list instead
     * of started; begin and end may fail without harm. Then they can be started as that. */
    bool (*list_begin)(qn_gpu *gpu, void *stream);
    void *(*list_end)(qn_gpu *gpu, void *stream);
    bool (*list_start)(qn_gpu *gpu, void *stream, void *list);
    void (*list_drop)(qn_gpu *gpu, void *list);
    /* Starts a copy; stream null: one at once, not beside others. */
    bool (*copy)(qn_gpu *gpu, void *stream, const qn_gpu_buffer *buffer, size_t offset, void *host,
                 size_t bytes, bool is_to_host);
    /* Marks the work of a stream so far, and asks whether all before a mark is done. */
    bool (*mark)(qn_gpu *gpu, void *stream, int mark);
    bool (*is_done)(qn_gpu *gpu, void *stream, int mark, bool *is_done);
} qn_gpu_driver;

/* Says that a call of the driver failed: the device is lost. False, for who has to stop then. */
bool qn_gpu_lose(qn_gpu *gpu, const char *what, const char *word, int code);
bool qn_gpu_is_lost(const qn_gpu *gpu);

/* Starts a launch in pieces, by the device's pace, and waits for each. */
bool qn_gpu_start_paced(qn_gpu *gpu, void *stream, const qn_gpu_launch *launch);

/* Waits for all of a stream. */
bool qn_gpu_finish(qn_gpu *gpu, void *stream);

/* Waits for what is before a mark, unless there is something else to do (null: there never is). */
bool qn_gpu_await(qn_gpu *gpu, void *stream, int mark, bool (*has_more)(const void *user),
                  const void *user, bool *is_done);

/* The buffer in which an address lies, and where; null: none. */
const qn_gpu_buffer *qn_gpu_locate(const qn_gpu *gpu, const void *address, size_t *offset);

/* ---- functions of qn_device that all drivers' devices share ---- */

/* shares: it is to work in the host's memory where it can. */
qn_status qn_gpu_open(const qn_allocator *allocator, const qn_gpu_driver *driver, int number,
                      bool shares, void **state);
void qn_gpu_close(void *state);
bool qn_gpu_supports(const void *state, const qn_query *query);
size_t qn_gpu_workspace(const qn_machine *machine, const void *state, const qn_query *query);
bool qn_gpu_state_is_lost(const void *state);
bool qn_gpu_shares(const void *state);
qn_status qn_gpu_share(void *state, size_t bytes, void **memory);
bool qn_gpu_unshare(void *state, void *memory);
qn_status qn_gpu_reserve(void *state, int space, size_t bytes, qn_memory *memory);
void qn_gpu_release(void *state, qn_memory *memory);
qn_status qn_gpu_copy_in(void *state, const qn_memory *memory, size_t offset, const void *from,
                         size_t bytes);
qn_status qn_gpu_copy_out(void *state, const qn_memory *memory, size_t offset, void *to,
                          size_t bytes);
void qn_gpu_counters(const void *state, qn_device_counters *counters);
qn_status qn_gpu_queue_open(void *state, const qn_allocator *allocator,
                            const qn_queue_options *options, qn_queue **queue);
void qn_gpu_queue_close(qn_queue *queue);
qn_timeline *qn_gpu_queue_timeline(const qn_queue *queue);
qn_timeline *qn_gpu_queue_begun(const qn_queue *queue);
void qn_gpu_queue_submit(qn_queue *queue, const qn_work *works, int32_t n,
                         const qn_queue_watch *watch);
void qn_gpu_queue_submit_behind(qn_queue *queue, const qn_work *works, int32_t n, uint64_t from);

/* The rest of a row of a driver's device. */
/* clang-format off */
#define QN_GPU_DEVICE_FUNCTIONS                                                                    \
    .close = qn_gpu_close, .supports = qn_gpu_supports, .workspace = qn_gpu_workspace,             \
    .is_lost = qn_gpu_state_is_lost, .reason = qn_gpu_reason, .is_silent = qn_gpu_is_silent,       \
    .model_name = qn_gpu_name, .set_pace = qn_gpu_set_pace, .measure = qn_gpu_measure,             \
    .shares = qn_gpu_shares, .share = qn_gpu_share,                                                \
    .unshare = qn_gpu_unshare, .reserve = qn_gpu_reserve, .release = qn_gpu_release,               \
    .copy_in = qn_gpu_copy_in, .copy_out = qn_gpu_copy_out, .queue_open = qn_gpu_queue_open,       \
    .queue_close = qn_gpu_queue_close, .queue_timeline = qn_gpu_queue_timeline,                    \
    .submit = qn_gpu_queue_submit, .submit_behind = qn_gpu_queue_submit_behind,                    \
    .queue_begun = qn_gpu_queue_begun, .counters = qn_gpu_counters
/* clang-format on */

#endif
