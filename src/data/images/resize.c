/* Bilinear resize, row by row; see prepare.h. */
#include "base/status.h"
#include "data/prepare.h"

/* Where output i lies in the input: between pixel *left and the next, *weight of the way. */
static void locate(int64_t i, double scale, double offset, int64_t in, int64_t *left,
                   float *weight) {
    double at = ((double)i + 0.5) * scale + offset - 0.5;
    at = at < 0 ? 0 : at > (double)(in - 1) ? (double)(in - 1) : at;
    *left = (int64_t)at;
    *weight = (float)(at - (double)*left);
}

qn_status qn_resizer_init(qn_resizer *resizer, const qn_allocator *allocator, const int64_t in[3],
                          const int64_t out[2], bool centre_crop) {
    qn_resizer *r = resizer;
    *r = (qn_resizer){.allocator = allocator, .in_h = in[0], .in_w = in[1], .c = in[2]};
    r->out_h = out[0];
    r->out_w = out[1];
    double scale_x = (double)in[1] / (double)out[1];
    r->scale_y = (double)in[0] / (double)out[0];
    if (centre_crop)
        scale_x = r->scale_y = scale_x < r->scale_y ? scale_x : r->scale_y;
    r->offset_y = ((double)in[0] - (double)out[0] * r->scale_y) / 2;
    double offset_x = ((double)in[1] - (double)out[1] * scale_x) / 2;
    size_t width = (size_t)r->out_w, c = (size_t)r->c;
    qn_status status = qn_allocate(allocator, width, sizeof *r->left, &r->left);
    if (status == QN_OK)
        status = qn_allocate(allocator, width, sizeof *r->weight, &r->weight);
    for (int i = 0; i < 2 && status == QN_OK; i++)
        status = qn_allocate(allocator, width, c * sizeof *r->line[i], &r->line[i]);
    if (status != QN_OK) {
        qn_resizer_deinit(r);
        return status;
    }
    for (int64_t i = 0; i < r->out_w; i++)
        locate(i, scale_x, offset_x, r->in_w, r->left + i, r->weight + i);
    return QN_OK;
}

void qn_resizer_deinit(qn_resizer *resizer) {
    qn_resizer *r = resizer;
    size_t width = (size_t)r->out_w, c = (size_t)r->c;
    qn_release(r->allocator, r->left, width, sizeof *r->left);
    qn_release(r->allocator, r->weight, width, sizeof *r->weight);
    for (int i = 0; i < 2; i++)
        qn_release(r->allocator, r->line[i], width, c * sizeof *r->line[i]);
    *r = (qn_resizer){0};
}

void qn_resizer_restart(qn_resizer *resizer) {
    resizer->next_out = resizer->n_in = 0;
}

/* The two input rows that the next output row lies between. */
static void locate_next(const qn_resizer *r, int64_t *top, int64_t *bottom, float *weight) {
    locate(r->next_out, r->scale_y, r->offset_y, r->in_h, top, weight);
    *bottom = *top + 1 < r->in_h ? *top + 1 : *top;
}

static void widen_u8(const qn_resizer *r, const uint8_t *row, float *line) {
    int64_t c = r->c, last = r->in_w - 1;
    for (int64_t i = 0; i < r->out_w; i++) {
        const uint8_t *left = row + r->left[i] * c, *right = r->left[i] < last ? left + c : left;
        for (int64_t k = 0; k < c; k++)
            line[i * c + k] = (float)left[k] + r->weight[i] * (float)(right[k] - left[k]);
    }
}

static void widen_f32(const qn_resizer *r, const float *row, float *line) {
    int64_t c = r->c, last = r->in_w - 1;
    for (int64_t i = 0; i < r->out_w; i++) {
        const float *left = row + r->left[i] * c, *right = r->left[i] < last ? left + c : left;
        for (int64_t k = 0; k < c; k++)
            line[i * c + k] = left[k] + r->weight[i] * (right[k] - left[k]);
    }
}

void qn_resizer_put(qn_resizer *resizer, qn_dtype dtype, const void *row) {
    qn_resizer *r = resizer;
    int64_t y = r->n_in++, top, bottom;
    float weight;
    if (r->next_out == r->out_h)
        return;
    locate_next(r, &top, &bottom, &weight);
    if (y < top)
        return;
    if (dtype == QN_U8)
        widen_u8(r, row, r->line[y % 2]);
    else
        widen_f32(r, row, r->line[y % 2]);
}

bool qn_resizer_take(qn_resizer *resizer, float *row) {
    qn_resizer *r = resizer;
    int64_t top, bottom, width = r->out_w * r->c;
    float weight;
    if (r->next_out == r->out_h)
        return false;
    locate_next(r, &top, &bottom, &weight);
    if (bottom >= r->n_in)
        return false;
    const float *above = r->line[top % 2], *below = r->line[bottom % 2];
    for (int64_t i = 0; i < width; i++)
        row[i] = above[i] + weight * (below[i] - above[i]);
    r->next_out++;
    return true;
}
