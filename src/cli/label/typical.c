/* Pictures of samples: what is typical of the classes, the latest samples that are surest to be of
 * them, and what is asked for. */
#include "base/status.h"
#include "cli/label/label.h"
#include "os/heap.h"

#include <stdlib.h>

enum { SHOWN = 6 };

/* A sample of a class. */
typedef struct member {
    int64_t age;
    float confidence;
} member;

/* The surest ones of those that are kept, first the surest. */
static int find_members(const qn_labeller *l, int64_t label, member *members) {
    int n = 0;
    for (int64_t age = 0; age < qn_labeller_kept(l); age++) {
        qn_label_answer answer;
        if (qn_labeller_revise(l, age, NULL, &answer) != QN_OK || answer.label != label)
            continue;
        int at = n < SHOWN ? n++ : SHOWN;
        for (; at > 0 && members[at - 1].confidence < answer.confidence; at--)
            if (at < SHOWN)
                members[at] = members[at - 1];
        if (at < SHOWN)
            members[at] = (member){age, answer.confidence};
    }
    return n;
}

/* Numbers of pictures are 0 to 255 or 0 to 1, or anything else. */
static void to_pixels(const float *x, int n, uint8_t *pixels) {
    float low = 0, high = 1;
    for (int i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    high = low >= 0 && high > 1 && high <= 255.0f ? 255.0f : high;
    for (int i = 0; i < n; i++)
        pixels[i] = (uint8_t)((x[i] - low) / (high - low) * 255.0f + 0.5f);
}

/* Whether samples can be drawn. */
static bool are_pictures(const qn_labeller *l) {
    const qn_shape s = qn_labeller_sample(l);
    return s.rank > 0 && s.dims[0] >= 2 && s.dims[1] >= 2 && (s.dims[2] == 1 || s.dims[2] == 3);
}

/* Space for a sample's numbers and pixels. */
static size_t sample_bytes(const qn_labeller *l) {
    return (size_t)qn_labeller_features(l) * (sizeof(float) + 1);
}

static void add_picture(qn_document *d, const qn_labeller *l, int64_t age, const char *title,
                        float *x) {
    const qn_shape s = qn_labeller_sample(l);
    const int n_values = qn_labeller_features(l);
    uint8_t *pixels = (uint8_t *)(x + n_values);
    qn_label_answer answer;
    if (qn_labeller_revise(l, age, x, &answer) != QN_OK) {
        qn_document_cell_text(d, "");
        return;
    }
    to_pixels(x, n_values, pixels);
    qn_document_cell_picture(d, title, (int)s.dims[0], (int)s.dims[1], (int)s.dims[2], pixels);
}

static void add_row(qn_document *d, const qn_labeller *l, const qn_label_class *c, float *x) {
    member members[SHOWN];
    const int n = find_members(l, c->label, members);
    if (n == 0)
        return;
    qn_document_cell_text(d, c->name);
    for (int i = 0; i < SHOWN; i++) {
        if (i < n)
            add_picture(d, l, members[i].age, c->name, x);
        else
            qn_document_cell_text(d, "");
    }
}

qn_status label_add_typical(qn_document *d, const qn_labeller *l) {
    static const char *const columns[1 + SHOWN] = {"class", "surest", "", "", "", "", ""};
    if (!are_pictures(l))
        return QN_OK;
    float *x = malloc(sample_bytes(l));
    if (!x)
        return qn_fail_memory(sample_bytes(l));
    qn_document_begin_table(d, "Typical samples", 1 + SHOWN, columns);
    for (int i = 0; i < qn_labeller_class_count(l); i++) {
        const qn_label_class c = qn_labeller_class_at(l, i);
        add_row(d, l, &c, x);
    }
    qn_document_end_table(d);
    free(x);
    return QN_OK;
}

qn_status label_add_questions(qn_document *d, const qn_labeller *l,
                              const qn_label_question *questions, int n) {
    static const char *const columns[] = {"sample", "by now", "samples like it", "picture"};
    const bool has_pictures = are_pictures(l);
    float *x = malloc(sample_bytes(l));
    if (!x)
        return qn_fail_memory(sample_bytes(l));
    qn_document_begin_table(d, "What are these?", has_pictures ? 4 : 3, columns);
    for (int i = 0; i < n; i++) {
        const qn_label_question *q = &questions[i];
        const char *name = qn_labeller_name_of(l, q->label);
        qn_document_cell_number(d, (double)(qn_labeller_samples(l) - q->age), 0);
        qn_document_cell_text(d, name);
        qn_document_cell_number(d, (double)q->n_members, 0);
        if (has_pictures)
            add_picture(d, l, q->age, name, x);
    }
    qn_document_end_table(d);
    free(x);
    return QN_OK;
}
