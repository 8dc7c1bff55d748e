/* Products of rows of features: one order of the sum for all that compare or fit them. */
#ifndef QN_TASKS_FEATURES_DOT_H
#define QN_TASKS_FEATURES_DOT_H

#include <stdint.h>
#include <string.h>

enum { QN_DOT_LANES = 8 };

typedef float qn_dot_lanes __attribute__((vector_size(QN_DOT_LANES * sizeof(float))));

/* a (n), b (n) */
static inline float qn_features_dot(const float *a, const float *b, int64_t n) {
    qn_dot_lanes sum = {0}, x, y;
    int64_t i = 0;
    float tail = 0;
    for (; i + QN_DOT_LANES <= n; i += QN_DOT_LANES) {
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        sum += x * y;
    }
    for (; i < n; i++)
        tail += a[i] * b[i];
    return (((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]))) +
           tail;
}

#endif
