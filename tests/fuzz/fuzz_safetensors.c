/* The safetensors reader, a checkpoint's pairs and the preparation among them: the input as a whole
 * file, and as a header alone that as much data follows as its tensors need. What a header says is
 * written and read again as it was. */
#define _GNU_SOURCE /* memmem */

#include "base/text.h"
#include "format/metadata.h"
#include "format/safetensors.h"
#include "fuzz/input.h"

enum { N_DATA = 4096 };

static void try_preparation(qn_metadata *metadata) {
    qn_preparation p;
    if (qn_metadata_get_preparation(metadata, &p) != QN_OK)
        return;
    /* What was accepted must be usable, and keep its bits. */
    double sum = 0;
    for (int i = 0; i < p.n_statistics; i++)
        sum += (double)p.mean[i] / (double)p.std_dev[i];
    for (int i = 0; p.class_names && i < p.n_classes; i++)
        sum += (double)strlen(p.class_names[i]);
    volatile double kept = sum;
    (void)kept;
    if (qn_metadata_set_preparation(metadata, &p) != QN_OK)
        abort();
}

static void try_file(const uint8_t *data, size_t size) {
    char path[128];
    qn_metadata *metadata;
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    snprintf(path, sizeof path, "%s/checkpoint", input_folder());
    input_write("checkpoint", data, size);
    if (qn_checkpoint_read(&allocator, path, &metadata) == QN_OK)
        qn_metadata_destroy(metadata);
    input_check_memory(&f);
    if (qn_checkpoint_read(NULL, path, &metadata) == QN_OK) {
        try_preparation(metadata);
        qn_metadata_destroy(metadata);
    }
}

static bool is_utf8(const char *text) {
    for (size_t n; *text; text += n) {
        n = qn_text_character(text);
        if (n == 0)
            return false;
    }
    return true;
}

/* Others are written with escapes in place of their bytes. */
static bool are_utf8(const qn_safetensors *file) {
    bool are = true;
    for (size_t i = 0; i < file->n_tensors; i++)
        are &= is_utf8(file->tensors[i].name);
    for (size_t i = 0; i < file->n_pairs; i++)
        are &= is_utf8(file->pairs[i].key) && is_utf8(file->pairs[i].value);
    return are;
}

/* Writes what a header says, with data, and reads it. */
static void check_written(const qn_safetensors *file) {
    static const char data[N_DATA];
    char path[128];
    qn_safetensors back;
    qn_file *from;
    for (size_t i = 0; i < file->n_tensors; i++)
        file->tensors[i].data = data + file->tensors[i].begin;
    snprintf(path, sizeof path, "%s/written", input_folder());
    qn_safetensors_init(&back, NULL);
    if (qn_safetensors_write(NULL, path, file->tensors, file->n_tensors, file->pairs,
                             file->n_pairs) != QN_OK ||
        qn_file_open(NULL, path, &from) != QN_OK || qn_safetensors_read(&back, from) != QN_OK ||
        back.n_tensors != file->n_tensors || back.n_pairs != file->n_pairs)
        abort();
    for (size_t i = 0; i < back.n_tensors; i++) {
        const qn_safetensor *a = &back.tensors[i], *b = &file->tensors[i];
        if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->bytes != b->bytes ||
            !qn_shape_equal(a->shape, b->shape))
            abort();
    }
    for (size_t i = 0; i < back.n_pairs; i++) {
        if (strcmp(back.pairs[i].key, file->pairs[i].key) != 0 ||
            strcmp(back.pairs[i].value, file->pairs[i].value) != 0)
            abort();
    }
    qn_file_close(from);
    qn_safetensors_deinit(&back);
}

/* Sorted, named and inside the data. */
static void check_header(const qn_safetensors *file, int64_t n_data) {
    for (size_t i = 0; i < file->n_tensors; i++) {
        const qn_safetensor *t = &file->tensors[i];
        if (!t->type || t->begin < 0 || t->begin + (int64_t)t->bytes > n_data ||
            qn_safetensors_find(file, t->name) != t)
            abort();
    }
}

/* The largest end of a tensor that a header tells of; 0: none, or more than there is data for. */
static int64_t data_of(const uint8_t *data, size_t size) {
    static const char key[] = "data_offsets\":[";
    const uint8_t *at = data;
    int64_t most = 0;
    while ((at = memmem(at, size - (size_t)(at - data), key, sizeof key - 1))) {
        char text[48] = "";
        long long begin, end;
        at += sizeof key - 1;
        const size_t left = size - (size_t)(at - data);
        memcpy(text, at, left < sizeof text - 1 ? left : sizeof text - 1);
        if (sscanf(text, "%18lld,%18lld", &begin, &end) == 2 && end > most && end <= N_DATA)
            most = end;
    }
    return most;
}

static void try_header(const uint8_t *data, size_t size, bool takes_any_type) {
    const int64_t n_data = data_of(data, size);
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    for (int i = 0; i < 2; i++) {
        qn_safetensors file;
        qn_safetensors_init(&file, i ? NULL : &allocator);
        file.takes_any_type = takes_any_type;
        if (qn_safetensors_parse(&file, "fuzz", (const char *)data, size, n_data) == QN_OK) {
            check_header(&file, n_data);
            if (!takes_any_type && are_utf8(&file))
                check_written(&file);
        }
        qn_safetensors_deinit(&file);
    }
    input_check_memory(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_file(data, size);
    try_header(data, size, false);
    if (size > 8)
        try_header(data + 8, size - 8, true);
    if (size > 8)
        try_header(data + 8, size - 8, false);
    return 0;
}
