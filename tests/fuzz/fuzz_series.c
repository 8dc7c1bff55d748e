/* Sounds and texts: a first byte T, and the rest is a file of texts; else a WAV file. What is
 * parsed lies within the file, and what is opened gives samples of classes that there are; without
 * memory nothing is left. */
#include "base/memory.h"
#include "base/status.h"
#include "data/series/wav.h"
#include "fuzz/input.h"
#include "quern/data.h"
#include "tensor/tensor.h"

enum { MOST_FRAMES = 1 << 13, MOST_BYTES = 1 << 14 };

static void check_source(const char *specification, const uint8_t *data, size_t size) {
    static uint8_t x[QN_SOUND_STEPS * QN_SOUND_BANDS];
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .allocator = &allocator};
    qn_data_source source;
    int32_t y;
    if (qn_data_open(specification, &options, &source) == QN_OK) {
        if (qn_shape_count(source.sample) > (int64_t)sizeof x)
            abort();
        for (int64_t i = 0; i < source.n_samples[QN_TRAIN] && i < 8; i++)
            if (source.read(source.self, QN_TRAIN, i, x, &y) != QN_OK || y < 0 ||
                y >= source.preparation.n_classes)
                abort();
        qn_data_close(&source);
    }
    input_check_memory(&f);
}

/* Whether it is one that opening may be tried with: long sounds take long. */
static bool check_wav(const uint8_t *data, size_t size) {
    static float wave[MOST_FRAMES];
    qn_wav w;
    if (qn_wav_parse(data, size, &w) != QN_OK)
        return true;
    const size_t each = (size_t)(w.channels * w.number_bytes);
    if (w.channels < 1 || w.channels > 16 || w.rate < 4000 || w.rate > 384000 || w.n_frames < 1 ||
        w.data_offset > size || w.n_frames > (size - w.data_offset) / each)
        abort();
    if (w.n_frames > MOST_FRAMES)
        return false;
    if (qn_wav_mix(data, &w, wave) == QN_OK)
        for (size_t i = 0; i < w.n_frames; i++)
            if (!(wave[i] >= -1e6f && wave[i] <= 1e6f))
                abort();
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[128], path[128];
    if (size > MOST_BYTES)
        return 0;
    if (size > 0 && data[0] == 'T') {
        input_write("texts.csv", data + 1, size - 1);
        snprintf(text, sizeof text, "texts:%s/texts.csv", input_folder());
        check_source(text, data, size);
        return 0;
    }
    if (!check_wav(data, size))
        return 0;
    snprintf(path, sizeof path, "%s/sounds/class", input_folder());
    if (qn_folder_create(path) != QN_OK)
        abort();
    input_write("sounds/class/a.wav", data, size);
    snprintf(text, sizeof text, "sounds:%s/sounds", input_folder());
    check_source(text, data, size);
    return 0;
}
