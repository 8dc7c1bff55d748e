/* The first pictures of each class, or label, of a data set, small. */
#include "base/print.h"
#include "base/status.h"
#include "cli/look/page.h"
#include "data/prepare.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_CLASSES = 60,
    OF_CLASS = 6,
    SIDE = 48,          /* pixels of the longer side on the page */
    MOST_READ = 100000, /* samples that are looked at for a rare class */
};

typedef struct gallery {
    const page *p;
    qn_shape shape; /* (H, W, C) as samples come */
    int n_classes, n_full;
    int64_t (*index)[OF_CLASS]; /* (n_classes) */
    int *n;                     /* (n_classes) */
    void *x;
    float *y;
    int64_t h, w; /* on the page */
    qn_resizer resizer;
    float *row;      /* (w, C) */
    uint8_t *pixels; /* (h, w, C) */
} gallery;

/* ---- choosing ---- */

static void note(gallery *g, int class, int64_t index) {
    if (class < 0 || class >= g->n_classes || g->n[class] == OF_CLASS)
        return;
    g->index[class][g->n[class]++] = index;
    g->n_full += g->n[class] == OF_CLASS;
}

static qn_status look_at(gallery *g, qn_split split, int64_t i) {
    const qn_data_source *s = g->p->source;
    int32_t class;
    if (s->read_class && g->p->look->n_labels == 0) {
        QN_TRY(s->read_class(s->self, split, i, &class));
        note(g, class, i);
        return QN_OK;
    }
    QN_TRY(s->read(s->self, split, i, g->x, g->y));
    memcpy(&class, g->y, sizeof class);
    if (g->p->look->n_labels == 0)
        note(g, class, i);
    for (int k = 0; k < g->p->look->n_labels; k++)
        if (g->y[k] > 0.5f)
            note(g, k, i);
    return QN_OK;
}

static qn_status choose(gallery *g) {
    const qn_split split = page_split(g->p);
    const int64_t n = g->p->source->n_samples[split];
    for (int64_t i = 0; i < n && i < MOST_READ && g->n_full < g->n_classes; i++)
        QN_TRY(look_at(g, split, i));
    return QN_OK;
}

/* ---- drawing ---- */

static void shrink(gallery *g) {
    const int64_t width = g->shape.dims[1] * g->shape.dims[2], c = g->w * g->shape.dims[2];
    int64_t y = 0;
    qn_resizer_restart(&g->resizer);
    for (int64_t i = 0; i < g->shape.dims[0]; i++) {
        qn_resizer_put(&g->resizer, QN_U8, (const uint8_t *)g->x + i * width);
        while (y < g->h && qn_resizer_take(&g->resizer, g->row)) {
            for (int64_t k = 0; k < c; k++)
                g->pixels[y * c + k] = (uint8_t)(g->row[k] + 0.5f);
            y++;
        }
    }
}

static qn_status add_row(gallery *g, int class) {
    const qn_data_source *s = g->p->source;
    const qn_split split = page_split(g->p);
    qn_document *d = g->p->document;
    char text[24], name[128];
    qn_document_cell_text(d, page_class_name(g->p, class, text));
    for (int k = 0; k < OF_CLASS; k++) {
        if (k >= g->n[class]) {
            qn_document_cell_text(d, "");
            continue;
        }
        QN_TRY(s->read(s->self, split, g->index[class][k], g->x, g->y));
        shrink(g);
        qn_print(name, sizeof name, "%.60s, sample %lld", page_class_name(g->p, class, text),
                 (long long)g->index[class][k] + 1);
        qn_document_cell_picture(d, name, (int)g->h, (int)g->w, (int)g->shape.dims[2], g->pixels);
    }
    return QN_OK;
}

static qn_status draw(gallery *g) {
    static const char *const columns[] = {"class", "1", "2", "3", "4", "5", "6"};
    const int n = g->n_classes;
    qn_status status = QN_OK;
    qn_document_begin_table(g->p->document, "Pictures, as the network gets them", OF_CLASS + 1,
                            columns);
    for (int i = 0; i < n && status == QN_OK; i++)
        status = add_row(g, i);
    qn_document_end_table(g->p->document);
    return status;
}

static qn_status take_memory(gallery *g) {
    const qn_shape *s = &g->shape;
    const int64_t longer = s->dims[0] > s->dims[1] ? s->dims[0] : s->dims[1];
    const int64_t by = longer > SIDE ? longer : SIDE;
    g->h = longer > SIDE ? (s->dims[0] * SIDE + by - 1) / by : s->dims[0];
    g->w = longer > SIDE ? (s->dims[1] * SIDE + by - 1) / by : s->dims[1];
    const size_t n_targets = (size_t)(g->p->source->n_targets > 0 ? g->p->source->n_targets : 1);
    g->index = calloc((size_t)g->n_classes, sizeof *g->index);
    g->n = calloc((size_t)g->n_classes, sizeof *g->n);
    g->x = malloc((size_t)qn_shape_count(*s));
    g->y = calloc(n_targets, sizeof *g->y);
    g->row = calloc((size_t)(g->w * s->dims[2]), sizeof *g->row);
    g->pixels = calloc((size_t)(g->h * g->w * s->dims[2]), 1);
    if (!g->index || !g->n || !g->x || !g->y || !g->row || !g->pixels)
        return qn_fail_memory((size_t)qn_shape_count(*s));
    return qn_resizer_init(&g->resizer, qn_allocator_default(), s->dims, (int64_t[]){g->h, g->w},
                           false);
}

static void give_memory_back(gallery *g) {
    if (g->resizer.allocator)
        qn_resizer_deinit(&g->resizer);
    free(g->index);
    free(g->n);
    free(g->x);
    free(g->y);
    free(g->row);
    free(g->pixels);
}

void page_add_pictures(const page *p) {
    const qn_data_source *s = p->source;
    const int n = page_count_classes(p);
    gallery g = {.p = p, .n_classes = n < MOST_CLASSES ? n : MOST_CLASSES, .shape = s->sample};
    if (s->sample.rank == 3 && s->sample.dims[0] == 0)
        g.shape = s->preparation.sample;
    if (s->dtype != QN_U8 || g.shape.rank != 3 || (g.shape.dims[2] != 1 && g.shape.dims[2] != 3))
        return;
    qn_status status = take_memory(&g);
    if (status == QN_OK)
        status = choose(&g);
    if (status == QN_OK)
        status = draw(&g);
    give_memory_back(&g);
    qn_document_fail(p->document, status);
}
