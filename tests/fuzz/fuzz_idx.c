/* IDX files. The header: what is accepted holds its equations. And, where the input begins with F,
 * the four files of a folder: images up to a byte 0xff, labels after it, and those of the test set
 * after one more, else the same; what is opened gives samples of classes that there are. */
#include "data/headers.h"
#include "fuzz/input.h"
#include "quern/data.h"
#include "tensor/tensor.h"

static void check_header(const uint8_t *data, size_t size) {
    qn_idx_header header;
    for (int rank = 1; rank <= 3; rank += 2) {
        if (qn_idx_parse(data, size, rank, &header) != QN_OK)
            continue;
        __int128 elements = 1;
        for (int i = 0; i < rank; i++)
            elements *= header.dims[i];
        if (elements != header.data_bytes || elements < 1 || header.header_bytes != 4 + 4 * rank)
            abort();
    }
}

static void read_samples(const qn_data_source *source) {
    static _Alignas(64) uint8_t x[1 << 16];
    int32_t y;
    if (qn_shape_count(source->sample) > (int64_t)sizeof x)
        return;
    for (int split = 0; split < 2; split++) {
        for (int64_t i = 0; i < source->n_samples[split] && i < 8; i++) {
            if (source->read(source->self, (qn_split)split, i, x, &y) != QN_OK || y < 0 ||
                y >= source->preparation.n_classes)
                abort();
        }
    }
}

/* What is up to the next byte 0xff; *at moves behind it, null at the end. */
static size_t next_part(const uint8_t **at, const uint8_t *end) {
    const uint8_t *begin = *at,
                  *mark = begin < end ? memchr(begin, 0xff, (size_t)(end - begin)) : NULL;
    *at = mark ? mark + 1 : NULL;
    return (size_t)((mark ? mark : end) - begin);
}

static void write_folder(const uint8_t *data, size_t size) {
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels.idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    const uint8_t *parts[4] = {data}, *at = data;
    size_t sizes[4] = {0};
    for (int i = 0; i < 4; i++) {
        parts[i] = at ? at : i < 2 ? data : parts[i - 2];
        sizes[i] = at ? next_part(&at, data + size) : i < 2 ? 0 : sizes[i - 2];
        input_write(names[i], parts[i], sizes[i]);
    }
}

static void open_folder(const uint8_t *data, size_t size) {
    char text[128];
    qn_data_source source;
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .allocator = &allocator};
    write_folder(data, size);
    snprintf(text, sizeof text, "idx:%s", input_folder());
    if (qn_data_open(text, &options, &source) == QN_OK) {
        read_samples(&source);
        qn_data_close(&source);
    }
    input_check_memory(&f);
}

/* Once: the data set that Debian has, where it is installed, else that it is not. */
static void open_installed(void) {
    qn_data_source source;
    static bool is_done;
    if (!is_done && qn_data_open("fashion-mnist", NULL, &source) == QN_OK) {
        read_samples(&source);
        qn_data_close(&source);
    }
    is_done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_header(data, size);
    if (size > 0 && data[0] == 'F' && size < 1 << 16)
        open_folder(data + 1, size - 1);
    open_installed();
    return 0;
}
