/* See show_page.h. */
#include "cli/look/show_page.h"

#include "base/print.h"
#include "base/status.h"
#include "cli/look/thumbnail.h"
#include "data/images/image.h"
#include "report/document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 112, /* pixels of a thumbnail's longer side */
    QUALITY = 80,
    MOST_SUSPECTS = 60,
    MOST_ANSWERS = 40,
    MOST_PAIRS = 30,
    MOST_CLASSES = 60,
    TYPICAL = 4, /* pictures of a class */
    ODD = 2,
    ENOUGH = 30 /* pictures of a class */
};

typedef struct drawing {
    const looked *l;
    qn_document *d;
    thumbnail small;
    bool has_pictures;
    qn_status status;
} drawing;

/* ---- cards ---- */

static void put_card(drawing *g, const qn_sample_finding *s, qn_judgement judgement,
                     const char *line, const char *note) {
    char name[LOOKED_NAME];
    qn_document_card card = {
        .name = looked_name(g->l, s, name), .line = line, .note = note, .judgement = judgement};
    uint8_t *jpeg = NULL;
    if (g->status != QN_OK)
        return;
    if (g->has_pictures) {
        g->status = thumbnail_read(&g->small, s->split, s->index);
        if (g->status != QN_OK)
            return;
        thumbnail_make(&g->small);
        const qn_image image = {g->small.pixels, g->small.h, g->small.w,
                                (int)g->small.shape.dims[2]};
        g->status = qn_jpeg_encode(&image, QUALITY, &jpeg, &card.jpeg_bytes);
        card.jpeg = jpeg;
    }
    qn_document_card_put(g->d, &card);
    free(jpeg);
}

/* "The 40 first of 72." */
static int64_t begin_list(drawing *g, const char *name, const char *what, const char *none,
                          int64_t n, int64_t most) {
    char text[160];
    qn_document_heading(g->d, name);
    qn_document_text(g->d, n > 0 ? what : none);
    if (n > most) {
        qn_print(text, sizeof text, "The first %lld of %lld.", (long long)most, (long long)n);
        qn_document_text(g->d, text);
    }
    if (n > 0)
        qn_document_begin_gallery(g->d, name);
    return n < most ? n : most;
}

static void end_list(drawing *g, int64_t n) {
    if (n > 0)
        qn_document_end_gallery(g->d);
}

/* ---- lists ---- */

static void add_suspects(drawing *g) {
    const qn_findings *f = &g->l->f;
    char line[256], note[128], from[24], to[24];
    const int64_t n = begin_list(
        g, "Probably wrong labels",
        "The samples most like these, and answers that were learned without them, name another "
        "class. quern fix moves pictures to the folder named here, after a question.",
        "None: the samples most like each other have the same class.", f->n_suspects,
        MOST_SUSPECTS);
    for (int64_t i = 0; i < n; i++) {
        const qn_sample_finding *s = &f->samples[f->suspects[i]];
        qn_print(line, sizeof line, "%.80s \xe2\x86\x92 %.80s", looked_class(g->l, s->label, from),
                 looked_class(g->l, s->suggest, to));
        qn_print(note, sizeof note, "trust in the label %.0f %%", 100 * (double)s->trust);
        put_card(g, s, QN_JUDGED_BAD, line, note);
    }
    end_list(g, n);
}

static void add_answers(drawing *g, const char *name, const char *what, const char *none,
                        const int64_t *list, int64_t n_all, qn_judgement judgement) {
    const qn_findings *f = &g->l->f;
    char line[256], note[128], is[24], said[24];
    const int64_t n = begin_list(g, name, what, none, n_all, MOST_ANSWERS);
    for (int64_t i = 0; i < n; i++) {
        const qn_sample_finding *s = &f->samples[list[i]];
        qn_print(line, sizeof line, "%.80s, answered %.80s", looked_class(g->l, s->label, is),
                 looked_class(g->l, s->answer, said));
        qn_print(note, sizeof note, "%.1f %% sure", 100 * (double)s->chance);
        put_card(g, s, judgement, line, note);
    }
    end_list(g, n);
}

static void add_duplicates(drawing *g) {
    const qn_findings *f = &g->l->f;
    char line[256], first[24], second[24];
    const int64_t n = begin_list(
        g, "Duplicates",
        "Pairs that are the same, or nearly. Copies teach nothing new, and make results look "
        "better than they are where one is learned and the other tested.",
        "None were found.", f->n_duplicates, MOST_PAIRS);
    for (int64_t i = 0; i < n; i++) {
        const qn_sample_finding *s = &f->samples[f->duplicates[i]], *o = &f->samples[s->nearest];
        const bool is_one = s->label == o->label;
        qn_print(line, sizeof line, is_one ? "pair %lld: %.80s" : "pair %lld: %.80s and %.80s",
                 (long long)i + 1, looked_class(g->l, s->label, first),
                 looked_class(g->l, o->label, second));
        put_card(g, s, is_one ? QN_JUDGED_NOT : QN_JUDGED_BAD, line, NULL);
        put_card(g, o, is_one ? QN_JUDGED_NOT : QN_JUDGED_BAD, line, NULL);
    }
    end_list(g, n);
}

/* ---- classes ---- */

const char *show_advice(const looked *l, int class, char text[SHOW_ADVICE]) {
    const qn_class_finding *c = &l->f.classes[class];
    char taken[24];
    size_t used = 0;
    text[0] = 0;
    if (c->n < ENOUGH)
        used += (size_t)qn_print(text, SHOW_ADVICE,
                                 c->n == 0 ? "there is no sample of it"
                                           : "only %lld samples: take more, in other light and "
                                             "from other sides",
                                 (long long)c->n);
    if (c->taken_for >= 0)
        used +=
            (size_t)qn_print(text + used, SHOW_ADVICE - used,
                             "%s%lld of %lld %s taken for %.60s: take more that show what "
                             "tells the two apart",
                             used ? "; " : "", (long long)c->n_taken, (long long)c->n_judged,
                             c->n_taken == 1 ? "is" : "are", looked_class(l, c->taken_for, taken));
    if (c->n_suspect > 0)
        used += (size_t)qn_print(text + used, SHOW_ADVICE - used, "%s%lld label%s wrong",
                                 used ? "; " : "", (long long)c->n_suspect,
                                 c->n_suspect == 1 ? " looks" : "s look");
    if (used == 0)
        qn_print(text, SHOW_ADVICE, c->n_unsure > 0 ? "%lld of %lld answers are unsure" : "enough",
                 (long long)c->n_unsure, (long long)c->n_judged);
    return text;
}

static void put_need(drawing *g, int class) {
    const qn_class_finding *c = &g->l->f.classes[class];
    char text[24], advice[SHOW_ADVICE];
    qn_document_cell_text(g->d, looked_class(g->l, class, text));
    qn_document_cell_text(g->d, show_advice(g->l, class, advice));
    qn_document_cell_number(g->d, (double)c->n, 0);
    qn_document_cell_number(
        g->d, c->n_judged > 0 ? 100 * (double)c->n_right / (double)c->n_judged : NAN, 1);
    qn_document_cell_number(g->d, (double)c->n_unsure, 0);
    qn_document_cell_number(g->d, (double)c->n_suspect, 0);
}

static void add_needs(drawing *g) {
    static const char *const columns[] = {"class",     "what would help", "samples",
                                          "right (%)", "unsure",          "wrong labels"};
    qn_document_heading(g->d, "What to add");
    qn_document_text(g->d, "Classes of which more samples would help most come first.");
    qn_document_begin_table(g->d, "Classes", 6, columns);
    for (int i = 0; i < g->l->f.n_classes; i++)
        put_need(g, (int)g->l->f.by_need[i]);
    qn_document_end_table(g->d);
}

/* The sample of a class whose place in the order of distances to the mean is the given one: from
 * the nearest on, or the farthest. Copies of what was shown are passed over by the order alone. */
static int64_t find_next(const looked *l, int class, float past, bool is_far) {
    int64_t found = -1;
    for (int64_t i = 0; i < l->f.n; i++) {
        const qn_sample_finding *s = &l->f.samples[i];
        const bool is_past = is_far ? s->from_mean < past : s->from_mean > past;
        if (s->label != class || !is_past)
            continue;
        const float best = found < 0 ? 0 : l->f.samples[found].from_mean;
        if (found < 0 || (is_far ? s->from_mean > best : s->from_mean < best))
            found = i;
    }
    return found;
}

static void add_kind(drawing *g, int class, bool is_far, int most) {
    float past = is_far ? INFINITY : -INFINITY;
    char name[24];
    for (int k = 0; k < most; k++) {
        const int64_t i = find_next(g->l, class, past, is_far);
        if (i < 0)
            return;
        past = g->l->f.samples[i].from_mean;
        put_card(g, &g->l->f.samples[i], is_far ? QN_JUDGED_UNSURE : QN_JUDGED_GOOD,
                 looked_class(g->l, class, name), is_far ? "unusual" : "typical");
    }
}

static void add_classes(drawing *g) {
    const int n = g->l->f.n_classes < MOST_CLASSES ? g->l->f.n_classes : MOST_CLASSES;
    begin_list(g, "What each class looks like",
               "The samples that are nearest to the middle of their class, and those that are "
               "farthest from it.",
               "", g->l->f.n_classes, MOST_CLASSES);
    for (int c = 0; c < n; c++) {
        const int n_odd = g->l->f.classes[c].n > TYPICAL + ODD ? ODD : 0;
        add_kind(g, c, false, TYPICAL);
        add_kind(g, c, true, n_odd);
    }
    end_list(g, n);
}

/* ---- all ---- */

static void add_figure(qn_document *d, const char *label, int64_t n, const char *note) {
    char text[32];
    qn_print(text, sizeof text, "%lld", (long long)n);
    qn_document_figure(d, label, text, note);
}

static void add_part(qn_document *d, const char *label, double part, const char *note) {
    char text[32];
    if (isfinite(part))
        qn_print(text, sizeof text, "%.1f %%", 100 * part);
    qn_document_figure(d, label, isfinite(part) ? text : "\xe2\x80\x93", note);
}

static void add_figures(const looked *l, qn_document *d) {
    const qn_findings *f = &l->f;
    char text[160];
    add_figure(d, "Samples", f->n, "");
    add_figure(d, "Classes", f->n_classes, "");
    add_part(d, "Right", f->accuracy, "of samples that were not learned from");
    add_part(d, "Calibration error", f->calibration, "how far chances are from the truth");
    add_figure(d, "Probably wrong labels", f->n_suspects, "");
    add_figure(d, "Duplicates", f->n_duplicates, "pairs");
    qn_print(text, sizeof text, "The first %lld samples were compared; %lld more were left out.",
             (long long)f->n, (long long)f->n_left_out);
    if (f->n_left_out > 0)
        qn_document_warning(d, text);
}

static void draw(drawing *g) {
    const qn_findings *f = &g->l->f;
    add_figures(g->l, g->d);
    add_needs(g);
    add_suspects(g);
    add_answers(g, "Worst mistakes",
                "Wrong answers, the surest first; not those whose label is probably wrong.",
                "None: all answers that could be judged are right where the label is.", f->mistakes,
                f->n_mistakes, QN_JUDGED_BAD);
    add_answers(g, "Most doubtful", "Answers below the chance from which an answer counts as sure.",
                "None: all answers are sure, or below which chance they are unsure is not known.",
                f->doubtful, f->n_doubtful, QN_JUDGED_UNSURE);
    add_duplicates(g);
    add_classes(g);
    qn_document_fail(g->d, g->status);
}

qn_status show_page_write(const looked *l, const char *path) {
    char title[512];
    drawing g = {.l = l, .has_pictures = thumbnail_can(l->source)};
    qn_print(title, sizeof title, "%.200s: what is in it", l->source->name);
    QN_TRY(qn_document_create(NULL, title, &g.d));
    qn_document_about(g.d, NULL, 0);
    if (g.has_pictures)
        g.status = thumbnail_open(&g.small, l->source, SIDE);
    draw(&g);
    if (g.has_pictures)
        thumbnail_close(&g.small);
    const qn_status status = qn_document_write_private(g.d, path);
    qn_document_destroy(g.d);
    return status;
}
