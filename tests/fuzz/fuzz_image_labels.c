/* Tables of pictures and labels (images:DIR,LABELS.csv): a first byte L asks for labels of which a
 * picture may have several. What is opened gives classes that there are, or labels of 0 and 1; the
 * same table gives as many samples again; without memory nothing is left. */
#include "base/memory.h"
#include "base/status.h"
#include "fuzz/input.h"
#include "quern/data.h"

enum { MOST_BYTES = 1 << 14, SIDE = 4 };

/* 2x2 pixels of one colour. */
static void write_picture(const char *name, uint8_t colour) {
    uint8_t bmp[54 + 16] = {'B', 'M', 70, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0,
                            2,   0,   0,  0, 2, 0, 0, 0, 1, 0, 24, 0, 0, 0, 0,  0, 16};
    memset(bmp + 54, colour, 16);
    input_write(name, bmp, sizeof bmp);
}

static void make_pictures(void) {
    static bool are_there;
    char path[160];
    snprintf(path, sizeof path, "%s/p/deep", input_folder());
    if (are_there)
        return;
    if (qn_folder_create(path) != QN_OK)
        abort();
    write_picture("p/a.bmp", 10);
    write_picture("p/b.bmp", 20);
    write_picture("p/deep/c.bmp", 30);
    write_picture("p/copy.bmp", 10);
    are_there = true;
}

static void check_sample(const qn_data_source *s, qn_split split, int64_t i) {
    static uint8_t x[SIDE * SIDE * 3];
    static float y[MOST_BYTES];
    int32_t class;
    if (s->read(s->self, split, i, x, y) != QN_OK)
        abort();
    memcpy(&class, y, sizeof class);
    if (s->n_targets == 0 && (class < 0 || class >= s->preparation.n_classes))
        abort();
    for (int k = 0; k < s->n_targets; k++)
        if (y[k] != 0 && y[k] != 1)
            abort();
}

/* The samples; -1: it cannot be opened. */
static int64_t open_table(const char *text, const char *task, const qn_allocator *allocator) {
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .allocator = allocator,
                                     .sample = {.rank = 3, .dims = {SIDE, SIDE, 3}}, .task = task};
    qn_data_source s;
    int64_t n = 0;
    if (qn_data_open(text, &options, &s) != QN_OK)
        return -1;
    if (s.n_targets > MOST_BYTES || (task && s.n_targets == 0))
        abort();
    for (int split = 0; split < QN_SPLITS; split++)
        for (int64_t i = 0; i < s.n_samples[split]; i++, n++)
            check_sample(&s, (qn_split)split, i);
    qn_data_close(&s);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[256];
    const bool are_labels = size > 0 && data[0] == 'L';
    if (size > MOST_BYTES)
        return 0;
    make_pictures();
    input_write("labels.csv", data + are_labels, size - are_labels);
    snprintf(text, sizeof text, "images:%s/p,%s/labels.csv", input_folder(), input_folder());
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    const char *task = are_labels ? "labels" : NULL;
    const int64_t n = open_table(text, task, &allocator);
    input_check_memory(&f);
    if (n >= 0 && f.left < 0 && open_table(text, task, NULL) != n)
        abort();
    return 0;
}
