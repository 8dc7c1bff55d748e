/* What a checkpoint's settings say of known pictures: the first line is the distance, the rest the
 * means. What is accepted gives a distance; and what is kept of features is accepted, with their
 * distances. Memory runs out where the input says. */
#include "input.h"
#include "tasks/features/unknown.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void look_at(const qn_known_region *r) {
    float *x = calloc((size_t)r->width, sizeof *x);
    if (x && r->n_classes > 0 && isnan(qn_known_region_distance(r, x)))
        abort();
    free(x);
}

/* Bytes as features of two classes; the first says how many views there are. */
static void keep(const qn_allocator *allocator, const uint8_t *data, size_t size,
                 qn_metadata *settings) {
    enum { WIDTH = 3, MOST = 64 };
    float x[MOST * WIDTH] = {0};
    int32_t y[MOST];
    const int64_t n_views = 1 + (size > 0 ? data[0] % 2 : 0);
    const int64_t n = (int64_t)(size / WIDTH < MOST ? size / WIDTH : MOST) / n_views;
    qn_known_region r;
    for (int64_t i = 0; i < n * n_views * WIDTH; i++)
        x[i] = (float)data[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)(i % 2);
    const qn_features f = {.n = n, .n_views = n_views, .width = WIDTH, .x = x, .y = y};
    if (n < 1 || qn_known_region_keep(allocator, &f, 2, settings) != QN_OK ||
        qn_known_region_read(allocator, settings, &r) == QN_ERROR_MEMORY)
        return;
    if (n > 3 && r.n_classes == 2)
        look_at(&r);
    qn_known_region_deinit(allocator, &r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    qn_metadata *settings;
    qn_known_region r = {.n_classes = 0};
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    if (!text || qn_metadata_create(NULL, &settings) != QN_OK)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    char *rest = strchr(text, '\n');
    if (rest) {
        *rest++ = 0;
        if (qn_metadata_set(settings, QN_UNKNOWN_ABOVE, text) != QN_OK ||
            qn_metadata_set(settings, QN_KNOWN_MEANS, rest) != QN_OK)
            abort();
        if (qn_known_region_read(&allocator, settings, &r) == QN_OK)
            look_at(&r);
        qn_known_region_deinit(&allocator, &r);
    }
    keep(&allocator, data, size, settings);
    input_check_memory(&f);
    qn_metadata_destroy(settings);
    free(text);
    return 0;
}
