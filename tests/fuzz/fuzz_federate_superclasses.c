/* The superclasses of classes, a line for each, for as many clients as the first byte says, and
 * classes with names or without: refused, or every sample is at one client and no client is
 * without. */
#include "federate/partition/partition.h"
#include "fuzz/input.h"

enum { N = 60, N_CLASSES = 6 };

static void check(const qn_partition *p) {
    bool is_there[N] = {false};
    if (p->first[0] != 0 || p->first[p->n_clients] != N)
        abort();
    for (int64_t i = 0; i < p->n_clients; i++)
        if (p->first[i + 1] <= p->first[i])
            abort();
    for (int64_t i = 0; i < N; i++) {
        if (p->samples[i] < 0 || p->samples[i] >= N || is_there[p->samples[i]])
            abort();
        is_there[p->samples[i]] = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[N_CLASSES] = {"ant", "bee", "cod", "a,b", "0", ""};
    int32_t labels[N];
    char specification[160];
    qn_partition p;
    if (size < 1)
        return 0;
    for (int i = 0; i < N; i++)
        labels[i] = i * i % N_CLASSES;
    const qn_partition_classes of = {labels, N, N_CLASSES, data[0] & 1 ? names : NULL};
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    input_write("supers", data + 1, size - 1);
    snprintf(specification, sizeof specification, "pachinko:0.1:10:%s/supers", input_folder());
    if (qn_partition_create(&allocator, specification, &of, data[0] >> 1, 1, &p) == QN_OK) {
        check(&p);
        qn_partition_destroy(&p);
    }
    input_check_memory(&f);
    return 0;
}
