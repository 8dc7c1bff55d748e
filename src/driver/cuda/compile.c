/* See compile.h. Nothing is contracted, so that sums are those that the texts say. */
#include "driver/cuda/compile.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>

typedef struct compiling {
    const qn_allocator *allocator;
    const qn_nvrtc_api *rtc;
    nvrtcProgram program;
    char *text;
    size_t text_bytes;
    bool is_exact; /* for the very architecture */
} compiling;

static qn_status join_texts(compiling *c) {
    const char *parts[QN_GPU_TEXTS + 1] = {qn_gpu_cuda_prelude};
    memcpy(parts + 1, qn_gpu_texts, sizeof qn_gpu_texts);
    c->text_bytes = 1;
    for (int i = 0; i <= QN_GPU_TEXTS; i++)
        c->text_bytes += strlen(parts[i]);
    QN_TRY(qn_allocate(c->allocator, 1, c->text_bytes, &c->text));
    char *to = c->text;
    for (int i = 0; i <= QN_GPU_TEXTS; i++) {
        memcpy(to, parts[i], strlen(parts[i]));
        to += strlen(parts[i]);
    }
    *to = 0;
    return QN_OK;
}

/* The newest architecture that the compiler knows and that is not newer than this; 0: none. */
static int nearest(const compiling *c, int architecture) {
    enum { MOST = 64 };
    int known[MOST] = {0}, n = 0, best = 0;
    if (c->rtc->nvrtcGetNumSupportedArchs(&n) != CUDA_OK || n < 1 || n > MOST ||
        c->rtc->nvrtcGetSupportedArchs(known) != CUDA_OK)
        return architecture;
    for (int i = 0; i < n; i++) {
        if (known[i] <= architecture && known[i] > best)
            best = known[i];
    }
    return best;
}

static void read_log(const compiling *c, char *to, size_t bytes) {
    enum { MOST_LOG = 1 << 20 };
    size_t size = 0;
    char *log;
    snprintf(to, bytes, "it does not say why");
    if (c->rtc->nvrtcGetProgramLogSize(c->program, &size) != CUDA_OK || size < 2 ||
        size > MOST_LOG || qn_allocate(c->allocator, 1, size + 1, &log) != QN_OK)
        return;
    if (c->rtc->nvrtcGetProgramLog(c->program, log) == CUDA_OK) {
        const char *line = strstr(log, "error");
        while (line && line > log && line[-1] != '\n')
            line--;
        line = line ? line : log;
        snprintf(to, bytes, "%.*s", (int)strcspn(line, "\n"), line);
    }
    qn_release(c->allocator, log, 1, size + 1);
}

/* The tile's definitions are options of their own, separated by spaces in one text. */
static int split(char *text, const char **options, int most) {
    int n = 0;
    for (char *word = strtok(text, " "); word && n < most; word = strtok(NULL, " "))
        options[n++] = word;
    return n;
}

static qn_status compile(compiling *c, const qn_gpu_tile *tile, int architecture) {
    enum { MOST_OPTIONS = 16 };
    char target[48], definitions[QN_GPU_DEFINITIONS], log[300];
    const char *options[MOST_OPTIONS] = {target, "--fmad=false", "--std=c++14"};
    const int known = nearest(c, architecture);
    c->is_exact = known == architecture;
    snprintf(target, sizeof target, "--gpu-architecture=%s_%d", c->is_exact ? "sm" : "compute",
             known);
    qn_gpu_define_tile(tile, definitions);
    const int n = 3 + split(definitions, options + 3, MOST_OPTIONS - 3);
    if (c->rtc->nvrtcCreateProgram(&c->program, c->text, "quern.cu", 0, NULL, NULL) != CUDA_OK)
        return qn_fail(QN_ERROR_DEVICE, "CUDA's compiler takes no program");
    if (known > 0 && c->rtc->nvrtcCompileProgram(c->program, n, options) == CUDA_OK)
        return QN_OK;
    read_log(c, log, sizeof log);
    return qn_fail(QN_ERROR_DEVICE,
                   "CUDA's compiler cannot compile the kernels for architecture %d: %s; train with "
                   "--device cpu, or install another version of it",
                   architecture, log);
}

static qn_status take_code(const compiling *c, char **code, size_t *bytes) {
    enum { MOST_BYTES = 1 << 28 };
    const bool is_exact = c->is_exact;
    CUresult (*const get_size)(nvrtcProgram, size_t *) =
        is_exact ? c->rtc->nvrtcGetCUBINSize : c->rtc->nvrtcGetPTXSize;
    CUresult (*const get)(nvrtcProgram, char *) =
        is_exact ? c->rtc->nvrtcGetCUBIN : c->rtc->nvrtcGetPTX;
    size_t size = 0;
    if (get_size(c->program, &size) != CUDA_OK || size < 1 || size > MOST_BYTES)
        return qn_fail(QN_ERROR_DEVICE, "CUDA's compiler gives no code");
    QN_TRY(qn_allocate(c->allocator, 1, size, code));
    *bytes = size;
    if (get(c->program, *code) == CUDA_OK)
        return QN_OK;
    qn_release(c->allocator, *code, 1, size);
    return qn_fail(QN_ERROR_DEVICE, "CUDA's compiler gives no code");
}

qn_status qn_cuda_compile(const qn_allocator *allocator, const qn_gpu_tile *tile, int architecture,
                          char **code, size_t *bytes) {
    compiling c = {.allocator = allocator};
    QN_TRY(qn_nvrtc_api_get(&c.rtc));
    qn_status status = join_texts(&c);
    if (status == QN_OK)
        status = compile(&c, tile, architecture);
    if (status == QN_OK)
        status = take_code(&c, code, bytes);
    if (c.program)
        (void)c.rtc->nvrtcDestroyProgram(&c.program);
    qn_release(allocator, c.text, 1, c.text_bytes);
    return status;
}
