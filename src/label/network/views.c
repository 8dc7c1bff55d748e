/* See views.h. */
#include "label/network/views.h"

#include "base/fmath.h"
#include "base/rng.h"
#include "tensor/tensor.h"

#include <math.h>

static const float most_angle = 0.7f; /* radians, 40 degrees */
static const float most_shift = 0.12f, most_zoom = 0.2f, most_noise = 0.15f;
static const float least_light = 0.5f, most_light = 1.3f;

void qn_view_plain(qn_shape sample, qn_view_scale scale, const uint8_t *bytes, float *x) {
    const int64_t n = qn_shape_count(sample);
    for (int64_t i = 0; i < n; i++)
        x[i] = ((float)bytes[i] - scale.shift) * scale.factor;
}

/* Where a place of a view is in the sample: (row, column) = m (h, w) + at. */
typedef struct placement {
    float m[2][2], at[2];
} placement;

/* A number from -1 to 1, mostly about 0: the mean of two. */
static float around(const float *u) {
    return u[0] + u[1] - 1.0f;
}

/* Turned by an angle about the centre, with zooms, and shifted. */
static placement place(qn_shape s, float angle, float zoom_h, float zoom_w, float shift_h,
                       float shift_w) {
    const float h = (float)s.dims[0], w = (float)s.dims[1], square = angle * angle;
    const float c = 1.0f - square * (0.5f - square / 24.0f);
    const float q = angle * (1.0f - square * (1.0f / 6.0f - square / 120.0f));
    const float centre[2] = {0.5f * (h - 1.0f), 0.5f * (w - 1.0f)};
    placement p = {{{c * zoom_h, -q * zoom_h}, {q * zoom_w, c * zoom_w}}, {shift_h, shift_w}};
    for (int i = 0; i < 2; i++)
        p.at[i] = s.dims[i] <= 1
                      ? 0.0f
                      : p.at[i] + centre[i] - p.m[i][0] * centre[0] - p.m[i][1] * centre[1];
    return p;
}

static bool is_picture(qn_shape s) {
    return s.dims[0] > 1 && s.dims[1] > 1;
}

static placement draw_placement(qn_shape s, const float *u) {
    const float angle = is_picture(s) ? most_angle * (2.0f * u[0] - 1.0f) : 0.0f;
    const float zoom_h = 1.0f + most_zoom * around(u + 1);
    const float zoom_w = is_picture(s) ? 1.0f + most_zoom * around(u + 3) : zoom_h;
    return place(s, angle, zoom_h, zoom_w, most_shift * (float)s.dims[0] * around(u + 5),
                 most_shift * (float)s.dims[1] * around(u + 7));
}

/* A byte of the sample at a place; outside, the nearest one inside. */
static float byte_at(qn_shape s, const uint8_t *bytes, int64_t h, int64_t w, int64_t c) {
    h = h < 0 ? 0 : h >= s.dims[0] ? s.dims[0] - 1 : h;
    w = w < 0 ? 0 : w >= s.dims[1] ? s.dims[1] - 1 : w;
    return (float)bytes[(h * s.dims[1] + w) * s.dims[2] + c];
}

/* Four bytes, weighted by the parts of the way from the first to the others. */
static float mix(float a, float b, float c, float d, float part_h, float part_w) {
    const float above = a * (1.0f - part_w) + b * part_w;
    const float below = c * (1.0f - part_w) + d * part_w;
    return above * (1.0f - part_h) + below * part_h;
}

static float between_at_edge(qn_shape s, const uint8_t *bytes, float row, float column, int64_t c) {
    const float low_h = floorf(row), low_w = floorf(column);
    const int64_t h = (int64_t)low_h, w = (int64_t)low_w;
    return mix(byte_at(s, bytes, h, w, c), byte_at(s, bytes, h, w + 1, c),
               byte_at(s, bytes, h + 1, w, c), byte_at(s, bytes, h + 1, w + 1, c), row - low_h,
               column - low_w);
}

static float between(qn_shape s, const uint8_t *bytes, float row, float column, int64_t c) {
    if (!(row >= 0 && row < (float)(s.dims[0] - 1) && column >= 0 &&
          column < (float)(s.dims[1] - 1)))
        return between_at_edge(s, bytes, row, column, c);
    const int h = (int)row, w = (int)column; /* whole parts: neither is below 0 */
    const int64_t right = s.dims[2], below = s.dims[1] * right;
    const uint8_t *at = bytes + h * below + w * right + c;
    return mix(at[0], at[right], at[below], at[below + right], row - (float)h, column - (float)w);
}

void qn_view_make(qn_shape sample, qn_view_scale scale, uint64_t seed, uint64_t number,
                  const uint8_t *bytes, float *x, float *room) {
    const qn_rng rng = qn_rng_make(seed, qn_hash_text("label.view"), number);
    const int64_t n = qn_shape_count(sample), channels = sample.dims[2];
    float u[16];
    qn_rng_uniforms(rng, 0, 16, u);
    qn_rng_uniforms(rng, 4, (size_t)n, room);
    const placement p = draw_placement(sample, u);
    const float light = least_light + (most_light - least_light) * u[9];
    const float noise = most_noise * u[10] * u[10] * 255.0f * 3.46f; /* of a uniform's deviation */
    for (int64_t h = 0; h < sample.dims[0]; h++)
        for (int64_t w = 0; w < sample.dims[1]; w++) {
            const float row = p.m[0][0] * (float)h + p.m[0][1] * (float)w + p.at[0];
            const float column = p.m[1][0] * (float)h + p.m[1][1] * (float)w + p.at[1];
            for (int64_t c = 0; c < channels; c++) {
                const int64_t i = (h * sample.dims[1] + w) * channels + c;
                const float value = light * between(sample, bytes, row, column, c);
                x[i] = (value + noise * (room[i] - 0.5f) - scale.shift) * scale.factor;
            }
        }
}

void qn_view_show(qn_shape sample, const qn_pose *pose, uint64_t seed, uint64_t number,
                  const uint8_t *bytes, uint8_t *out) {
    const qn_rng rng = qn_rng_make(seed, qn_hash_text("label.drift"), number);
    const float *part = pose->part;
    const float light = qn_exp_f32(part[QN_POSE_LIGHT]);
    const placement p = place(sample, is_picture(sample) ? part[QN_POSE_ANGLE] : 0, 1, 1, 0, 0);
    int64_t i = 0;
    for (int64_t h = 0; h < sample.dims[0]; h++)
        for (int64_t w = 0; w < sample.dims[1]; w++)
            for (int64_t c = 0; c < sample.dims[2]; c++, i++) {
                const float row = p.m[0][0] * (float)h + p.m[0][1] * (float)w + p.at[0];
                const float column = p.m[1][0] * (float)h + p.m[1][1] * (float)w + p.at[1];
                const float noise =
                    part[QN_POSE_NOISE] > 0
                        ? part[QN_POSE_NOISE] * (float)qn_rng_normal(rng, (uint64_t)i)
                        : 0;
                const float value = light * between(sample, bytes, row, column, c) + noise + 0.5f;
                out[i] = value < 0 ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
            }
}
