/* See drift.h. */
#include "learn/drift.h"

#include "base/decimal.h"
#include "base/rng.h"
#include "base/status.h"

#include <math.h>
#include <string.h>

static qn_status read_part(const char *part, qn_drift *d) {
    static const struct {
        const char *name;
        double least, most;
    } kinds[] = {{"rotate:", -180, 180}, {"bright:", 0.05, 5}, {"classes:", 0, 1000}};
    for (int i = 0; i < 3; i++) {
        double value;
        const size_t n = strlen(kinds[i].name);
        if (strncmp(part, kinds[i].name, n) != 0)
            continue;
        if (!qn_decimal_parse(part + n, &value) ||
            !(value >= kinds[i].least && value <= kinds[i].most) ||
            (i == 2 && value != rint(value)))
            return qn_fail(QN_ERROR_ARGUMENT, "%s: a number from %g to %g", part, kinds[i].least,
                           kinds[i].most);
        if (i == 2)
            d->n_new = (int)value;
        else
            *(i == 0 ? &d->degrees : &d->bright) = value;
        return QN_OK;
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "\"%s\" is no drift; there are rotate:DEGREES, bright:FACTOR, classes:N, none",
                   part);
}

qn_status qn_drift_parse(const char *text, qn_drift *drift) {
    qn_drift d = {.bright = 1};
    char part[40];
    for (const char *at = text; strcmp(text, "none") != 0;) {
        const size_t n = strcspn(at, ",");
        if (n >= sizeof part)
            return qn_fail(QN_ERROR_ARGUMENT, "a drift is as rotate:20,bright:0.6,classes:2");
        memcpy(part, at, n);
        part[n] = 0;
        QN_TRY(read_part(part, &d));
        if (!at[n])
            break;
        at += n + 1;
    }
    *drift = d;
    return QN_OK;
}

typedef struct picture {
    const void *values; /* (h, w, c) */
    bool is_bytes;
    int64_t h, w, c;
} picture;

static double value_at(const picture *p, int64_t y, int64_t x, int64_t channel) {
    if (y < 0 || x < 0 || y >= p->h || x >= p->w)
        return 0;
    const int64_t i = (y * p->w + x) * p->c + channel;
    return p->is_bytes ? (double)((const uint8_t *)p->values)[i]
                       : (double)((const float *)p->values)[i];
}

/* Between four pixels. */
static double between(const picture *p, double y, double x, int64_t channel) {
    const int64_t top = (int64_t)floor(y), left = (int64_t)floor(x);
    const double down = y - (double)top, right = x - (double)left;
    const double above =
        (1 - right) * value_at(p, top, left, channel) + right * value_at(p, top, left + 1, channel);
    const double below = (1 - right) * value_at(p, top + 1, left, channel) +
                         right * value_at(p, top + 1, left + 1, channel);
    return (1 - down) * above + down * below;
}

void qn_drift_apply(const qn_drift *d, qn_shape sample, qn_dtype dtype, uint64_t index,
                    const void *from, void *to) {
    const picture p = {from, dtype == QN_U8, sample.dims[0], sample.dims[1], sample.dims[2]};
    const qn_rng rng = qn_rng_make(7, qn_hash_text("learn.drift"), 0);
    const double u = (double)qn_rng_uniform(qn_rng_word(rng, index));
    const double angle = d->degrees * (2 + 2 * u) / 3 * acos(-1) / 180;
    const double middle_y = (double)(p.h - 1) / 2, middle_x = (double)(p.w - 1) / 2;
    int64_t i = 0;
    for (int64_t y = 0; y < p.h; y++) {
        for (int64_t x = 0; x < p.w; x++) {
            const double dy = (double)y - middle_y, dx = (double)x - middle_x;
            const double at_y = middle_y + cos(angle) * dy - sin(angle) * dx;
            const double at_x = middle_x + sin(angle) * dy + cos(angle) * dx;
            for (int64_t c = 0; c < p.c; c++, i++) {
                const double value = d->bright * between(&p, at_y, at_x, c);
                if (p.is_bytes)
                    ((uint8_t *)to)[i] = (uint8_t)fmin(fmax(rint(value), 0), 255);
                else
                    ((float *)to)[i] = (float)value;
            }
        }
    }
}
