/* Self times of a trace, as the library reads it: a line "TRACK\tNAME\tNANOSECONDS" for each slice.
 */
#include "format/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static qn_status add(void *context, size_t slice, int64_t begin_ns, int64_t end_ns) {
    ((int64_t *)context)[slice] += end_ns - begin_ns;
    return QN_OK;
}

int main(int n_arguments, char **arguments) {
    qn_trace_reading *reading;
    size_t n, n_tracks;
    if (n_arguments != 2 || qn_trace_read(NULL, arguments[1], &reading) != QN_OK) {
        fprintf(stderr, "usage: trace_times FILE\n%s\n", qn_error_message());
        return 1;
    }
    const qn_trace_slice_read *slices = qn_trace_reading_slices(reading, &n);
    const qn_trace_track *tracks = qn_trace_reading_tracks(reading, &n_tracks);
    int64_t *self = calloc(n + 1, sizeof *self);
    const qn_status status = qn_trace_self_times(NULL, slices, n, self, add);
    for (size_t i = 0; i < n; i++)
        printf("%s/%s\t%s\t%" PRId64 "\n", tracks[slices[i].track].pid, tracks[slices[i].track].tid,
               slices[i].name, self[i]);
    free(self);
    qn_trace_reading_destroy(reading);
    return status != QN_OK;
}
