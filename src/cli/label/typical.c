/* What is typical of the classes of pictures: the latest samples that are surest to be of them. */
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

static void add_row(qn_document *d, const qn_labeller *l, const qn_label_class *c, float *x) {
    member members[SHOWN];
    qn_label_answer answer;
    const qn_shape s = qn_labeller_sample(l);
    const int n = find_members(l, c->label, members), n_values = qn_labeller_features(l);
    uint8_t *pixels = (uint8_t *)(x + n_values);
    if (n == 0)
        return;
    qn_document_cell_text(d, c->name);
    for (int i = 0; i < SHOWN; i++) {
        if (i >= n || qn_labeller_revise(l, members[i].age, x, &answer) != QN_OK) {
            qn_document_cell_text(d, "");
            continue;
        }
        to_pixels(x, n_values, pixels);
        qn_document_cell_picture(d, c->name, (int)s.dims[0], (int)s.dims[1], (int)s.dims[2],
                                 pixels);
    }
}

qn_status label_add_typical(qn_document *d, const qn_labeller *l) {
    static const char *const columns[1 + SHOWN] = {"class", "surest", "", "", "", "", ""};
    const qn_shape s = qn_labeller_sample(l);
    if (s.rank == 0 || s.dims[0] < 2 || s.dims[1] < 2 || (s.dims[2] != 1 && s.dims[2] != 3))
        return QN_OK;
    float *x = malloc((size_t)qn_labeller_features(l) * (sizeof *x + 1));
    if (!x)
        return qn_fail_memory((size_t)qn_labeller_features(l) * (sizeof *x + 1));
    qn_document_begin_table(d, "Typical samples", 1 + SHOWN, columns);
    for (int i = 0; i < qn_labeller_class_count(l); i++) {
        const qn_label_class c = qn_labeller_class_at(l, i);
        add_row(d, l, &c, x);
    }
    qn_document_end_table(d);
    free(x);
    return QN_OK;
}
