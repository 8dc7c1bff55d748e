/* Traces of other programs: slices are sorted, their tracks exist, and self times add up to what is
 * covered. */
#define _GNU_SOURCE /* memfd_create */

#include "format/trace.h"

#include "memory_file.h"

#include <stdlib.h>

static void check_order(const qn_trace_slice_read *slices, size_t n, size_t n_tracks) {
    for (size_t i = 0; i < n; i++) {
        const qn_trace_slice_read *a = &slices[i > 0 ? i - 1 : 0], *b = &slices[i];
        if (b->end_ns < b->begin_ns || b->track < a->track || (size_t)b->track >= n_tracks ||
            !b->name || !b->category)
            abort();
        if (a->track == b->track &&
            (b->begin_ns < a->begin_ns || (b->begin_ns == a->begin_ns && b->end_ns > a->end_ns)))
            abort();
    }
}

/* Sums wrap: a file may tell of more time than an integer holds. */
static uint64_t measure_cover(const qn_trace_slice_read *slices, size_t n) {
    uint64_t covered = 0;
    int64_t until = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && slices[i].track != slices[i - 1].track)
            until = INT64_MIN;
        const int64_t from = slices[i].begin_ns > until ? slices[i].begin_ns : until;
        if (slices[i].end_ns > from)
            covered += (uint64_t)(slices[i].end_ns - from);
        if (slices[i].end_ns > until)
            until = slices[i].end_ns;
    }
    return covered;
}

static qn_status add(void *context, size_t slice, int64_t begin_ns, int64_t end_ns) {
    (void)slice;
    *(uint64_t *)context += (uint64_t)(end_ns - begin_ns);
    return QN_OK;
}

static void check(const qn_trace_reading *reading) {
    size_t n, n_tracks;
    uint64_t sum = 0;
    const qn_trace_slice_read *slices = qn_trace_reading_slices(reading, &n);
    qn_trace_reading_tracks(reading, &n_tracks);
    check_order(slices, n, n_tracks);
    if (qn_trace_self_times(NULL, slices, n, &sum, add) != QN_OK || sum != measure_cover(slices, n))
        abort();
    qn_trace_reading_fact(reading, "baseTimeNanoseconds");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int descriptor;
    char path[64];
    qn_trace_reading *reading;
    qn_file *file = memory_file_open(data, size, &descriptor);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (file && qn_trace_read(NULL, path, &reading) == QN_OK) {
        check(reading);
        qn_trace_reading_destroy(reading);
    }
    qn_file_close(file);
    close(descriptor);
    return 0;
}
