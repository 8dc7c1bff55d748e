/* See unknown.h. The text: "1 CLASSES WIDTH ", then two hexadecimal digits a number: first the
 * deviations by their logarithm, then the means in deviations, each with an offset of 128. */
#include "tasks/features/unknown.h"

#include "base/decimal.h"
#include "base/fmath.h"
#include "base/print.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 64, STEPS = 8 /* of a logarithm, and of a deviation */, MOST_WIDTH = 1 << 16 };

static const double known_part = 0.98; /* of the training pictures are nearer */

static qn_status region_init(const qn_allocator *allocator, int n_classes, int64_t width,
                             qn_known_region *r) {
    *r = (qn_known_region){.n_classes = n_classes, .width = width};
    QN_TRY(qn_allocate(allocator, (size_t)(n_classes * width), sizeof *r->means, &r->means));
    return qn_allocate(allocator, (size_t)width, sizeof *r->scale, &r->scale);
}

void qn_known_region_deinit(const qn_allocator *allocator, qn_known_region *r) {
    qn_release(allocator, r->means, (size_t)(r->n_classes * r->width), sizeof *r->means);
    qn_release(allocator, r->scale, (size_t)r->width, sizeof *r->scale);
    *r = (qn_known_region){.n_classes = 0};
}

static double distance_to(const qn_known_region *r, int class, const float *x) {
    const float *mean = r->means + class * r->width;
    double sum = 0;
    for (int64_t i = 0; i < r->width; i++) {
        const double d = (double)(x[i] * r->scale[i] - mean[i]);
        sum += d * d;
    }
    return sqrt(sum / (double)r->width);
}

double qn_known_region_distance(const qn_known_region *r, const float *x) {
    double least = INFINITY;
    for (int c = 0; c < r->n_classes; c++) {
        const double d = distance_to(r, c, x);
        least = d < least ? d : least;
    }
    return least;
}

/* ---- numbers of 8 bits ---- */

/* What is no number becomes 0, too. */
static int to_byte(double value) {
    const double steps = nearbyint(value * STEPS) + 128;
    return !(steps > 0) ? 0 : steps > 255 ? 255 : (int)steps;
}

static double of_byte(int byte) {
    return (double)(byte - 128) / STEPS;
}

static char *put_byte(char *at, int byte) {
    static const char digits[] = "0123456789abcdef";
    *at++ = digits[byte >> 4];
    *at++ = digits[byte & 15];
    return at;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* -1: no byte. */
static int get_byte(const char *at) {
    const int high = digit_of(at[0]), low = high < 0 ? -1 : digit_of(at[1]);
    return low < 0 ? -1 : high * 16 + low;
}

/* ---- finding ---- */

static const float *view_of(const qn_features *f, int64_t i) {
    return f->x + i * f->n_views * f->width;
}

/* Means as they are; then deviations within classes, of which a half is their mean, so that a
 * feature that hardly moves among few pictures does not decide alone. counts (n_classes). */
static void find_moments(const qn_features *f, const int64_t *counts, qn_known_region *r) {
    double all = 0;
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < r->width; k++)
            r->means[f->y[i] * r->width + k] += view_of(f, i)[k] / (float)counts[f->y[i]];
    for (int64_t k = 0; k < r->width; k++) {
        double sum = 0;
        for (int64_t i = 0; i < f->n; i++) {
            const double d = (double)(view_of(f, i)[k] - r->means[f->y[i] * r->width + k]);
            sum += d * d / (double)f->n;
        }
        r->scale[k] = (float)sum;
        all += sum / (double)r->width;
    }
    for (int64_t k = 0; k < r->width; k++)
        r->scale[k] = (float)(1 / sqrt(fmax(((double)r->scale[k] + all) / 2, 1e-12)));
}

/* As they will be read. */
static void round_numbers(qn_known_region *r, char *text) {
    for (int64_t k = 0; k < r->width; k++) {
        const int byte = to_byte(qn_log_f64((double)r->scale[k]) / 2);
        r->scale[k] = (float)qn_exp_f64(2 * of_byte(byte));
        text = put_byte(text, byte);
    }
    for (int c = 0; c < r->n_classes; c++) {
        for (int64_t k = 0; k < r->width; k++) {
            float *mean = &r->means[c * r->width + k];
            const int byte = to_byte((double)(*mean * r->scale[k]));
            *mean = (float)of_byte(byte);
            text = put_byte(text, byte);
        }
    }
    *text = 0;
}

static int compare_numbers(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of each picture to the mean of the others of its class, which is n / (n - 1) times as far as
 * theirs with it; distances (n). */
static void find_most(const qn_features *f, const int64_t *counts, double *distances,
                      qn_known_region *r) {
    int64_t n = 0;
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t of_class = counts[f->y[i]];
        if (of_class > 1)
            distances[n++] =
                distance_to(r, f->y[i], view_of(f, i)) * (double)of_class / (double)(of_class - 1);
    }
    qsort(distances, (size_t)n, sizeof *distances, compare_numbers);
    const int64_t at = (int64_t)ceil(known_part * (double)n) - 1;
    r->most = n > 0 ? distances[at < 0 ? 0 : at] : 0;
}

static qn_status keep(const qn_known_region *r, char *text, qn_metadata *settings) {
    char most[40];
    qn_print(most, sizeof most, "%.6g", r->most);
    QN_TRY(qn_metadata_set(settings, QN_KNOWN_MEANS, text));
    return qn_metadata_set(settings, QN_UNKNOWN_ABOVE, most);
}

static qn_status find(qn_arena *arena, const qn_features *f, qn_known_region *r,
                      qn_metadata *settings) {
    const size_t numbers = (size_t)(r->width * (r->n_classes + 1));
    int64_t *counts = qn_arena_allocate(arena, (size_t)r->n_classes, sizeof *counts);
    double *distances = qn_arena_allocate(arena, (size_t)f->n, sizeof *distances);
    char *text = qn_arena_allocate(arena, HEAD + 2 * numbers + 1, 1);
    if (!counts || !distances || !text)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < f->n; i++)
        counts[f->y[i]]++;
    find_moments(f, counts, r);
    const int used = snprintf(text, HEAD, "1 %d %lld ", r->n_classes, (long long)r->width);
    round_numbers(r, text + used);
    find_most(f, counts, distances, r);
    return r->most > 0 ? keep(r, text, settings) : QN_OK;
}

qn_status qn_known_region_keep(const qn_allocator *allocator, const qn_features *features,
                               int n_classes, qn_metadata *settings) {
    qn_known_region r;
    qn_arena arena;
    if (n_classes > QN_KNOWN_MOST_CLASSES || features->width > MOST_WIDTH)
        return QN_OK;
    qn_arena_init(&arena, allocator);
    qn_status status = region_init(allocator, n_classes, features->width, &r);
    if (status == QN_OK)
        status = find(&arena, features, &r, settings);
    qn_known_region_deinit(allocator, &r);
    qn_arena_deinit(&arena);
    return status;
}

/* ---- reading ---- */

static bool read_numbers(const char *text, qn_known_region *r) {
    const int64_t n = r->width * (r->n_classes + 1);
    if ((int64_t)strlen(text) != 2 * n)
        return false;
    for (int64_t i = 0; i < n; i++) {
        const int byte = get_byte(text + 2 * i);
        if (byte < 0)
            return false;
        if (i < r->width)
            r->scale[i] = (float)qn_exp_f64(2 * of_byte(byte));
        else
            r->means[i - r->width] = (float)of_byte(byte);
    }
    return true;
}

qn_status qn_known_region_read(const qn_allocator *allocator, const qn_metadata *settings,
                               qn_known_region *region) {
    const char *text = qn_metadata_get(settings, QN_KNOWN_MEANS);
    const char *most = qn_metadata_get(settings, QN_UNKNOWN_ABOVE);
    *region = (qn_known_region){.n_classes = 0};
    if (!text || !most)
        return QN_OK;
    char *end;
    const long version = strtol(text, &end, 10), n_classes = strtol(end, &end, 10),
               width = strtol(end, &end, 10);
    bool is_good = version == 1 && n_classes > 0 && n_classes <= QN_KNOWN_MOST_CLASSES &&
                   width > 0 && width <= MOST_WIDTH && *end == ' ';
    if (is_good) {
        const qn_status status = region_init(allocator, (int)n_classes, width, region);
        if (status != QN_OK) {
            qn_known_region_deinit(allocator, region);
            return status;
        }
    }
    is_good = is_good && read_numbers(end + 1, region);
    region->most = qn_decimal_read(most, NULL);
    if (is_good && region->most > 0 && isfinite(region->most))
        return QN_OK;
    qn_known_region_deinit(allocator, region);
    return qn_fail(QN_ERROR_FORMAT, "the setting %s of the weights is damaged", QN_KNOWN_MEANS);
}
