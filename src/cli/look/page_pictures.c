/* The first pictures of each class, or label, of a data set, small. */
#include "base/print.h"
#include "base/status.h"
#include "cli/look/page.h"
#include "cli/look/thumbnail.h"

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
    int n_classes, n_full;
    int64_t (*index)[OF_CLASS]; /* (n_classes) */
    int *n;                     /* (n_classes) */
    thumbnail small;
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
    QN_TRY(thumbnail_read(&g->small, split, i));
    memcpy(&class, g->small.y, sizeof class);
    if (g->p->look->n_labels == 0)
        note(g, class, i);
    for (int k = 0; k < g->p->look->n_labels; k++)
        if (g->small.y[k] > 0.5f)
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

static qn_status add_row(gallery *g, int class) {
    const qn_split split = page_split(g->p);
    qn_document *d = g->p->document;
    char text[24], name[128];
    qn_document_cell_text(d, page_class_name(g->p, class, text));
    for (int k = 0; k < OF_CLASS; k++) {
        if (k >= g->n[class]) {
            qn_document_cell_text(d, "");
            continue;
        }
        QN_TRY(thumbnail_read(&g->small, split, g->index[class][k]));
        thumbnail_make(&g->small);
        qn_print(name, sizeof name, "%.60s, sample %lld", page_class_name(g->p, class, text),
                 (long long)g->index[class][k] + 1);
        qn_document_cell_picture(d, name, (int)g->small.h, (int)g->small.w,
                                 (int)g->small.shape.dims[2], g->small.pixels);
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
    g->index = calloc((size_t)g->n_classes, sizeof *g->index);
    g->n = calloc((size_t)g->n_classes, sizeof *g->n);
    if (!g->index || !g->n)
        return qn_fail_memory((size_t)g->n_classes * sizeof *g->index);
    return thumbnail_open(&g->small, g->p->source, SIDE);
}

void page_add_pictures(const page *p) {
    const int n = page_count_classes(p);
    gallery g = {.p = p, .n_classes = n < MOST_CLASSES ? n : MOST_CLASSES};
    if (!thumbnail_can(p->source))
        return;
    qn_status status = take_memory(&g);
    if (status == QN_OK)
        status = choose(&g);
    if (status == QN_OK)
        status = draw(&g);
    thumbnail_close(&g.small);
    free(g.index);
    free(g.n);
    qn_document_fail(p->document, status);
}
