/* GIF through giflib, which is opened when the first such file is found. Only the first frame is
 * read, drawn on white: an animation's other frames say nothing new of what it shows. */
#include "base/memory.h"
#include "base/status.h"
#include "data/images/image.h"
#include "os/heap.h"
#include "os/library.h"

#include <string.h>

/* As gif_lib.h of version 5 declares them; later members are never looked into. */
typedef struct gif_colours {
    int n, bits;
    bool is_sorted;
    const uint8_t *rgb; /* (n, 3) */
} gif_colours;

typedef struct gif_frame {
    int left, top, width, height;
    bool is_interlaced;
    gif_colours *colours;
} gif_frame;

typedef struct gif_file {
    int width, height, resolution, background;
    unsigned char aspect;
    gif_colours *colours;
    int n_images;
    gif_frame frame;
    void *images;
    int n_extensions;
    void *extensions;
    int error;
    void *user;
    void *own;
} gif_file;

enum { IMAGE = 2, EXTENSION = 3, GRAPHICS = 0xf9, GIF_OK = 1, N_PASSES = 4 };

typedef struct gif_library {
    gif_file *(*open)(void *user, int (*read)(gif_file *, unsigned char *, int), int *error);
    int (*close)(gif_file *file, int *error);
    int (*record)(gif_file *file, int *kind);
    int (*image)(gif_file *file);
    int (*line)(gif_file *file, unsigned char *line, int n);
    int (*extension)(gif_file *file, int *code, unsigned char **data);
    int (*extension_next)(gif_file *file, unsigned char **data);
} gif_library;

/* What is decoded, and what of it is left. */
typedef struct gif_state {
    gif_library library;
    const uint8_t *at, *end;
    gif_file *file;
    int transparent;  /* index, or -1 */
    int64_t h, w;     /* of the screen */
    uint8_t *indices; /* (frame) */
    uint8_t *row;     /* (w, 3) */
} gif_state;

/* Once opened, it stays: one handle more, and no loading again for the next file. */
static qn_status open_library(gif_library *l) {
    qn_library *library;
    const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"DGifOpen", &l->open},
        {"DGifCloseFile", &l->close},
        {"DGifGetRecordType", &l->record},
        {"DGifGetImageDesc", &l->image},
        {"DGifGetLine", &l->line},
        {"DGifGetExtension", &l->extension},
        {"DGifGetExtensionNext", &l->extension_next},
    };
    if (qn_library_open("libgif.so.7", &library) != QN_OK)
        return qn_fail(
            QN_ERROR_UNSUPPORTED,
            "GIF needs giflib, which is not installed (Debian: apt-get install libgif7); "
            "or convert it to PNG");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (!qn_library_find(library, functions[i].name, functions[i].function))
            return qn_fail(QN_ERROR_UNSUPPORTED, "giflib lacks %s", functions[i].name);
    }
    return QN_OK;
}

static int read_bytes(gif_file *file, unsigned char *to, int n) {
    gif_state *s = file->user;
    const size_t left = (size_t)(s->end - s->at);
    const size_t taken = n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
    memcpy(to, s->at, taken);
    s->at += taken;
    return (int)taken;
}

static qn_status fail(void) {
    return qn_fail(QN_ERROR_FORMAT, "broken GIF, or one without pictures");
}

/* An extension's blocks; one that says which colour is transparent is heeded. */
static qn_status pass_extension(gif_state *s) {
    unsigned char *data;
    int code;
    if (s->library.extension(s->file, &code, &data) != GIF_OK)
        return fail();
    while (data) {
        if (code == GRAPHICS && data[0] >= 4)
            s->transparent = data[1] & 1 ? data[4] : -1;
        if (s->library.extension_next(s->file, &data) != GIF_OK)
            return fail();
    }
    return QN_OK;
}

/* Goes to the first frame. */
static qn_status find_frame(gif_state *s) {
    for (int kind;;) {
        if (s->library.record(s->file, &kind) != GIF_OK || (kind != IMAGE && kind != EXTENSION))
            return fail();
        if (kind == EXTENSION)
            QN_TRY(pass_extension(s));
        else
            return s->library.image(s->file) == GIF_OK ? QN_OK : fail();
    }
}

static qn_status check_size(gif_state *s) {
    const gif_frame *f = &s->file->frame;
    if (f->width < 1 || f->height < 1 || f->left < 0 || f->top < 0)
        return fail();
    s->w = s->file->width > 0 ? s->file->width : f->width;
    s->h = s->file->height > 0 ? s->file->height : f->height;
    if (s->w * s->h > QN_IMAGE_MAX_PIXELS || (int64_t)f->width * f->height > QN_IMAGE_MAX_PIXELS)
        return qn_fail(QN_ERROR_FORMAT, "GIF of too many pixels");
    return QN_OK;
}

static qn_status read_indices(gif_state *s) {
    static const int first[N_PASSES] = {0, 4, 2, 1}, step[N_PASSES] = {8, 8, 4, 2};
    const gif_frame *f = &s->file->frame;
    const int n_passes = f->is_interlaced ? N_PASSES : 1;
    for (int pass = 0; pass < n_passes; pass++) {
        const int each = f->is_interlaced ? step[pass] : 1;
        for (int y = f->is_interlaced ? first[pass] : 0; y < f->height; y += each) {
            if (s->library.line(s->file, s->indices + (int64_t)y * f->width, f->width) != GIF_OK)
                return fail();
        }
    }
    return QN_OK;
}

static void draw_row(const gif_state *s, const gif_colours *colours, int64_t y) {
    const gif_frame *f = &s->file->frame;
    memset(s->row, 255, (size_t)s->w * 3);
    if (y < f->top || y >= (int64_t)f->top + f->height)
        return;
    const uint8_t *indices = s->indices + (y - f->top) * f->width;
    for (int64_t x = 0; x < f->width && x + f->left < s->w; x++) {
        if (indices[x] != s->transparent && indices[x] < colours->n)
            memcpy(s->row + 3 * (x + f->left), colours->rgb + 3 * indices[x], 3);
    }
}

static qn_status give_rows(const gif_state *s, const qn_pixel_sink *sink) {
    const gif_colours *colours = s->file->frame.colours ? s->file->frame.colours : s->file->colours;
    if (!colours || !colours->rgb)
        return fail();
    QN_TRY(sink->begin(sink->context, s->h, s->w, 3, 1));
    for (int64_t y = 0; y < s->h; y++) {
        draw_row(s, colours, y);
        QN_TRY(sink->row(sink->context, s->row));
    }
    return QN_OK;
}

static qn_status decode(gif_state *s, const qn_pixel_sink *sink) {
    const qn_allocator *heap = qn_allocator_default();
    const gif_frame *f = &s->file->frame;
    QN_TRY(find_frame(s));
    QN_TRY(check_size(s));
    const size_t h = (size_t)f->height, w = (size_t)f->width;
    qn_status status = qn_allocate(heap, h, w, &s->indices);
    if (status == QN_OK)
        status = qn_allocate(heap, (size_t)s->w, 3, &s->row);
    if (status == QN_OK)
        status = read_indices(s);
    if (status == QN_OK)
        status = give_rows(s, sink);
    qn_release(heap, s->row, (size_t)s->w, 3);
    qn_release(heap, s->indices, h, w);
    return status;
}

qn_status qn_gif_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    gif_state s = {.at = data, .end = data + bytes, .transparent = -1};
    int error;
    QN_TRY(open_library(&s.library));
    s.file = s.library.open(&s, read_bytes, &error);
    if (!s.file)
        return fail();
    const qn_status status = decode(&s, sink);
    s.library.close(s.file, &error);
    return status;
}
