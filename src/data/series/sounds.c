/* A folder of recordings: CLASS/FILE.wav, or FILE.wav for sounds of no class; or one of them. A
 * sample is the spectrum of a file's loudest second (wav.h), whatever its rate. Files are read when
 * the data set is opened; an unreadable one is an error that names it, and others than WAV are
 * passed over. */
#include "base/status.h"
#include "data/series/series.h"
#include "data/series/wav.h"
#include "os/os.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 1 << 28 }; /* of a file */

typedef struct listing {
    qn_series_source *series;
    const char *class; /* whose folder is read; null: the root */
    int64_t n_passed;
} listing;

static bool is_wav(const char *name) {
    const size_t n = strlen(name);
    return n > 4 && (strcmp(name + n - 4, ".wav") == 0 || strcmp(name + n - 4, ".WAV") == 0);
}

static qn_status describe(const qn_allocator *allocator, const unsigned char *data, size_t bytes,
                          uint8_t *to) {
    qn_wav wav;
    float *wave;
    QN_TRY(qn_wav_parse(data, bytes, &wav));
    QN_TRY(qn_allocate(allocator, wav.n_frames, sizeof *wave, &wave));
    qn_status status = qn_wav_mix(data, &wav, wave);
    if (status == QN_OK)
        status = qn_sound_describe(allocator, wave, wav.n_frames, wav.rate, to);
    qn_release(allocator, wave, wav.n_frames, sizeof *wave);
    return status;
}

static qn_status read_file(qn_series_source *s, const char *class, const char *path) {
    const qn_allocator *allocator = s->base.options.allocator;
    qn_file *file;
    uint8_t *to;
    unsigned char *data;
    QN_TRY(qn_file_open(allocator, path, &file));
    const int64_t bytes = qn_file_bytes(file);
    qn_status status = bytes <= MOST_BYTES
                           ? qn_allocate(allocator, (size_t)bytes + 1, 1, &data)
                           : qn_fail(QN_ERROR_FORMAT, "%s: larger than 256 MiB", path);
    if (status != QN_OK) {
        qn_file_close(file);
        return status;
    }
    status = qn_file_read(file, 0, data, (size_t)bytes);
    qn_file_close(file);
    if (status == QN_OK)
        status = qn_series_add(s, class, &to);
    if (status == QN_OK) {
        status = describe(allocator, data, (size_t)bytes, to);
        status = status == QN_OK ? status : qn_fail_within(status, "%s", path);
    }
    qn_release(allocator, data, (size_t)bytes + 1, 1);
    return status;
}

static qn_status visit_sound(void *context, const char *name, bool is_folder) {
    listing *l = context;
    char path[PATH_MAX];
    const char *root = l->series->base.argument, *class = l->class ? l->class : "";
    if (is_folder || name[0] == '.' || !is_wav(name)) {
        l->n_passed += !is_folder;
        return QN_OK;
    }
    const int n = snprintf(path, sizeof path, "%s/%s%s%s", root, class, l->class ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof path)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
    return read_file(l->series, l->class ? l->class : "sound", path);
}

static qn_status visit_class(void *context, const char *name, bool is_folder) {
    listing *l = context;
    if (!is_folder || name[0] == '.')
        return QN_OK;
    const qn_allocator *allocator = l->series->base.options.allocator;
    const char *path =
        qn_arena_format(&l->series->base.arena, "%s/%s", l->series->base.argument, name);
    l->class = name;
    return path ? qn_folder_list(allocator, path, visit_sound, l) : QN_ERROR_MEMORY;
}

static qn_status sounds_open(qn_source_base *base, qn_data_source *source) {
    qn_series_source *s = (qn_series_source *)base;
    listing l = {.series = s};
    s->sample = QN_SHAPE(QN_SOUND_STEPS, 1, QN_SOUND_BANDS);
    if (strcmp(base->argument, "-") == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "sounds:DIR is a folder of files; standard input is one file without an "
                       "end to tell: save it as DIR/NAME.wav");
    if (is_wav(base->argument) && qn_path_is_file(base->argument)) {
        QN_TRY(read_file(s, "sound", base->argument));
        return qn_series_finish(s, source);
    }
    QN_TRY(qn_folder_list(base->options.allocator, base->argument, visit_class, &l));
    if (s->n == 0) {
        l.class = NULL;
        QN_TRY(qn_folder_list(base->options.allocator, base->argument, visit_sound, &l));
    }
    if (s->n == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s holds no sounds (CLASS/*.wav, or *.wav)",
                       base->argument);
    if (l.n_passed > 0)
        qn_data_tell(base, 0, "%s: ignored %" PRId64 " files that are no .wav", base->argument,
                     l.n_passed);
    return qn_series_finish(s, source);
}

const qn_data_format qn_format_sounds = {
    .name = "sounds",
    .usage = "DIR",
    .self_bytes = sizeof(qn_series_source),
    .open = sounds_open,
    .release = qn_series_release,
};
