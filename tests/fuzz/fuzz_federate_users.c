/* The users of samples, a name a line, for as many samples and clients as the first two bytes say:
 * refused, or every sample is at one client and no client is without. */
#include "federate/partition/users.h"
#include "fuzz/input.h"

static void check(const qn_partition *p) {
    static bool is_there[256];
    memset(is_there, 0, sizeof is_there);
    if (p->first[0] != 0 || p->first[p->n_clients] != p->n_samples)
        abort();
    for (int64_t i = 0; i < p->n_clients; i++)
        if (p->first[i + 1] <= p->first[i])
            abort();
    for (int64_t i = 0; i < p->n_samples; i++) {
        const int64_t sample = p->samples[i];
        if (sample < 0 || sample >= p->n_samples || is_there[sample])
            abort();
        is_there[sample] = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128];
    qn_partition p;
    if (size < 2)
        return 0;
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    input_write("users", data + 2, size - 2);
    snprintf(path, sizeof path, "%s/users", input_folder());
    if (qn_partition_users(&allocator, path, data[0], data[1], &p) == QN_OK) {
        check(&p);
        qn_partition_destroy(&p);
    }
    input_check_memory(&f);
    return 0;
}
