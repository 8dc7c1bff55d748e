/* The reward curve: points with an equal number of episodes, as many as needed for all to fit. */
#include "base/print.h"
#include "base/status.h"
#include "tasks/control.h"

#include <math.h>
#include <string.h>

/* Two points become one. */
static void halve(qn_control_curve *c) {
    for (int64_t i = 0; i < c->n_points / 2; i++) {
        c->returns[i] = (c->returns[2 * i] + c->returns[2 * i + 1]) / 2;
        c->frames[i] = c->frames[2 * i + 1];
    }
    c->n_points /= 2;
    c->n_each *= 2;
}

void qn_control_curve_add(qn_control_curve *c, double episode_return, int64_t n_frames) {
    c->n_each = c->n_each > 0 ? c->n_each : 1;
    c->pending += episode_return;
    if (++c->n_pending < c->n_each)
        return;
    c->returns[c->n_points] = c->pending / (double)c->n_each;
    c->frames[c->n_points++] = n_frames;
    c->pending = 0;
    c->n_pending = 0;
    if (c->n_points == QN_CONTROL_POINTS)
        halve(c);
}

qn_status qn_control_curve_check(const qn_control_curve *c) {
    if (c->n_points >= 0 && c->n_points < QN_CONTROL_POINTS && c->n_each >= 0 &&
        c->n_each <= INT64_MAX / 4 && c->n_pending >= 0)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "the reward curve is none that was saved here");
}

void qn_control_curve_show(const qn_control_curve *c, void (*put)(void *user, const char *line),
                           void *user) {
    enum { WIDTH = 50 };
    double least = 0, most = 0;
    for (int64_t i = 0; i < c->n_points; i++) {
        least = fmin(least, c->returns[i]);
        most = fmax(most, c->returns[i]);
    }
    for (int64_t i = 0; i < c->n_points; i++) {
        char bar[WIDTH + 1], line[WIDTH + 80];
        const double part = most > least ? (c->returns[i] - least) / (most - least) : 0;
        const int length = (int)lround(WIDTH * part);
        memset(bar, '#', sizeof bar);
        bar[length] = 0;
        qn_print(line, sizeof line, "%10lld frames  return %8.2f  %s", (long long)c->frames[i],
                 c->returns[i], bar);
        put(user, line);
    }
}
