/* The sampler with sources of the test's own: ticks that do not drift, missed ones, slow sources
 * that delay nobody, memory with a bound, what counts towards the whole, and failing allocations.
 */
#include "base/memory.h"
#include "base/status.h"
#include "check.h"
#include "failing.h"
#include "meter/history.h"
#include "meter/sampler.h"
#include "meter/sources/busy.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/cpu_time.h"

#include <stdlib.h>
#include <time.h>

#define MS INT64_C(1000000)

static void sleep_ns(int64_t ns) {
    const struct timespec span = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&span, NULL);
}

/* ---- sources of the test's own ---- */

enum { MOST_READS = 4096, MOST_CHANNELS = 6 };

typedef struct fake {
    const char *name;
    bool is_there, is_noisy, is_silent, is_steady;
    int64_t sleep_ns; /* of a reading */
    int n_channels;
    qn_channel channels[MOST_CHANNELS];
    const qn_source_options *options;
    qn_source_options said_with;
    int n_reads;
    int64_t read_ns[MOST_READS], last_ns;
    int *memory; /* what open allocates */
    const qn_allocator *allocator;
} fake;

static fake fakes[4];

/* What the fourth was given of the second's. */
static const qn_reading *followed;
static int n_followed, n_apart;

static qn_status open_fake(fake *f, const qn_source_options *options, void **source) {
    if (!f->is_there)
        return QN_OK;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *f->memory, &f->memory));
    f->allocator = options->allocator;
    f->said_with = *options;
    f->n_reads = 0;
    f->last_ns = 0;
    *source = f;
    return QN_OK;
}

static qn_status open_fast(const qn_source_options *options, void **source) {
    return open_fake(&fakes[0], options, source);
}

static qn_status open_rare(const qn_source_options *options, void **source) {
    return open_fake(&fakes[1], options, source);
}

static qn_status open_slow(const qn_source_options *options, void **source) {
    return open_fake(&fakes[2], options, source);
}

static const qn_channel *channels_fake(const void *source, int *n) {
    const fake *f = source;
    *n = f->n_channels;
    return f->channels;
}

/* Every reading is worth 1 and reaches from the last one. */
static void read_fake(void *source, int64_t now_ns, qn_reading *readings) {
    fake *f = source;
    if (f->n_reads < MOST_READS)
        f->read_ns[f->n_reads] = now_ns;
    if (f->n_reads < MOST_READS)
        __atomic_fetch_add(&f->n_reads, 1, __ATOMIC_RELEASE);
    if (f->is_noisy)
        f->said_with.say(f->said_with.user, f->name, "is lost");
    if (f->sleep_ns)
        sleep_ns(f->sleep_ns);
    for (int i = 0; i < f->n_channels && f->last_ns && !f->is_silent; i++)
        readings[i] = (qn_reading){f->last_ns, now_ns, 1};
    f->last_ns = now_ns;
}

static bool is_steady_fake(const void *source) {
    return ((const fake *)source)->is_steady;
}

static void close_fake(void *source) {
    fake *f = source;
    qn_release(f->allocator, f->memory, 1, sizeof *f->memory);
    f->memory = NULL;
}

static qn_status open_follower(const qn_source_options *options, void **source) {
    return open_fake(&fakes[3], options, source);
}

static void follow_fake(void *source, const qn_reading *readings) {
    (void)source;
    followed = readings;
}

/* Gives what it was given, if that is of this very tick. */
static void read_follower(void *source, int64_t now_ns, qn_reading *readings) {
    (void)source;
    n_followed++;
    n_apart += followed->end_ns != 0 && followed->end_ns != fakes[1].last_ns;
    n_apart += followed->end_ns > now_ns;
    readings[0] = *followed;
}

#define FAKE(NAME, PERIOD, IS_SLOW)                                                                \
    .name = #NAME, .about = "of the test's own", .period_ns = PERIOD, .is_slow = IS_SLOW,          \
    .open = open_##NAME, .channels = channels_fake, .close = close_fake

static const qn_source_kind fast_kind = {FAKE(fast, 0, false), .read = read_fake,
                                         .is_steady = is_steady_fake};
static const qn_source_kind rare_kind = {FAKE(rare, 25 * MS, false), .read = read_fake};
static const qn_source_kind slow_kind = {FAKE(slow, 0, true), .read = read_fake};
static const qn_source_kind follower_kind = {FAKE(follower, 0, false), .read = read_follower,
                                             .follows = "rare", .follow = follow_fake};

/* Stands for the list of the library. */
const qn_source_kind *const qn_source_kinds[] = {&fast_kind, &rare_kind, &slow_kind, &follower_kind,
                                                 NULL};

static void reset_fakes(void) {
    static const char *const names[] = {"fast", "rare", "slow"};
    for (int i = 0; i < 3; i++) {
        fakes[i] = (fake){.name = names[i], .is_there = true, .n_channels = 1};
        for (int j = 0; j < MOST_CHANNELS; j++)
            fakes[i].channels[j] = (qn_channel){.source = names[i],
                                                .quantity = QN_QUANTITY_UTILISATION,
                                                .part = QN_PART_OTHER,
                                                .inside = -1};
    }
}

/* ---- ticks ---- */

static void count_tick(void *user) {
    ++*(int64_t *)user;
}

/* Readings of a source while another is at one of its own. */
static int count_within(const fake *f, const fake *slow) {
    int n = 0;
    for (int i = 0; i < f->n_reads; i++)
        for (int j = 0; j < slow->n_reads; j++)
            n += f->read_ns[i] > slow->read_ns[j] &&
                 f->read_ns[i] < slow->read_ns[j] + slow->sleep_ns;
    return n;
}

/* Longest wait of a test that goes well on the busiest machine. */
#define MOST_WAIT_NS (60000 * (int64_t)MS)

static void wait_for(const int64_t *count, int64_t wanted) {
    const int64_t until_ns = qn_clock_ns() + MOST_WAIT_NS;
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < wanted && qn_clock_ns() < until_ns)
        sleep_ns(MS);
}

/* Waits until a source was read so often, however late the sampler's threads come. */
static void wait_for_reads(const fake *f, int64_t wanted) {
    const int64_t until_ns = qn_clock_ns() + MOST_WAIT_NS;
    while (__atomic_load_n(&f->n_reads, __ATOMIC_ACQUIRE) < wanted && qn_clock_ns() < until_ns)
        sleep_ns(MS);
}

/* The ticks that were taken and those that were missed are all that were due until the last one,
 * whose reading is the last before that of stop. */
static void check_tick_count(const qn_sampler_cost *cost, int64_t begin_ns, int64_t interval_ns) {
    const fake *f = &fakes[0];
    const int64_t n = cost->n_ticks + cost->n_missed;
    CHECK(f->n_reads >= 3 && f->n_reads < MOST_READS);
    if (f->n_reads < 3 || f->n_reads >= MOST_READS)
        return;
    const int64_t last_ns = f->read_ns[f->n_reads - 2], before_ns = f->read_ns[f->n_reads - 3];
    CHECK(n <= (last_ns - begin_ns) / interval_ns + 1);
    CHECK(n >= (before_ns - f->read_ns[0]) / interval_ns + 1);
}

static void check_ticks(void) {
    qn_sampler *s;
    int64_t n_heard = 0;
    reset_fakes();
    fakes[2].sleep_ns = 60 * MS;
    qn_sampler_options options = {
        .interval_ns = 5 * MS, .user = &n_heard, .on_tick = count_tick, .most_bytes = 100000};
    CHECK_OK(qn_sampler_create(&options, &s));
    CHECK(qn_sampler_channel_count(s) == 3);
    const int64_t begin_ns = qn_clock_ns();
    CHECK_OK(qn_sampler_start(s));
    wait_for_reads(&fakes[0], 30);
    wait_for_reads(&fakes[1], 5);
    wait_for_reads(&fakes[2], 3);
    qn_sampler_stop(s);
    const int64_t span_ns = qn_clock_ns() - begin_ns;
    const qn_sampler_cost cost = qn_sampler_get_cost(s);
    CHECK(n_heard == cost.n_ticks - 1 && fakes[0].n_reads == cost.n_ticks + 1);
    check_tick_count(&cost, begin_ns, 5 * MS);
    CHECK(cost.busy_ns > 0 && cost.busy_ns < span_ns);
    /* a slow source that takes 60 ms does not hold up the ticks: some lie within its reading */
    CHECK(fakes[2].n_reads <= span_ns / (60 * MS) + 1);
    CHECK(count_within(&fakes[0], &fakes[2]) > 3);
    /* no source faster than its period, which is five ticks; the last reading is the one of stop */
    CHECK(fakes[1].n_reads <= span_ns / (25 * MS) + 2);
    CHECK(fakes[1].n_reads <= (cost.n_ticks + cost.n_missed) / 5 + 2);
    qn_sampler_destroy(s);
}

/* ---- ticks that others take ---- */

/* What a tick at a time demands: on_tick is never in two threads, and every tick is a reading. */
typedef struct ticked {
    int is_inside;           /* atomic */
    int64_t n_own, n_others; /* atomic; n_others: taken by `by` */
    int64_t by;
    bool is_twice;
} ticked;

static void note_tick(void *user) {
    ticked *t = user;
    t->is_twice |= __atomic_exchange_n(&t->is_inside, 1, __ATOMIC_ACQUIRE) != 0;
    const bool is_other = qn_thread_id() == t->by;
    __atomic_fetch_add(is_other ? &t->n_others : &t->n_own, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&t->is_inside, 0, __ATOMIC_RELEASE);
}

static void check_noted(const qn_sampler *s, const ticked *t, int64_t begin_ns) {
    const qn_sampler_cost cost = qn_sampler_get_cost(s);
    CHECK(!t->is_twice && t->n_own + t->n_others == cost.n_ticks - 1);
    CHECK(fakes[0].n_reads == cost.n_ticks + 1);
    CHECK(cost.n_ticks + cost.n_missed <= (qn_clock_ns() - begin_ns) / (2 * MS) + 1);
    for (int i = 1; i < fakes[0].n_reads; i++)
        CHECK(fakes[0].read_ns[i] >= fakes[0].read_ns[i - 1]);
}

/* While this thread looks often, it takes ticks and the sampler's own seldom does; as soon as it no
 * longer looks, the sampler's own does. A slow source goes on by itself. */
static void check_others(void) {
    qn_sampler *s;
    ticked t = {.by = qn_thread_id()};
    reset_fakes();
    const qn_sampler_options options = {.interval_ns = 2 * MS, .user = &t, .on_tick = note_tick};
    CHECK_OK(qn_sampler_create(&options, &s));
    CHECK(qn_sampler_tick(s, qn_clock_ns()) == INT64_MAX); /* not yet started */
    const int64_t begin_ns = qn_clock_ns();
    CHECK_OK(qn_sampler_start(s));
    int64_t due_ns = 0;
    while (t.n_others < 20 && qn_clock_ns() < begin_ns + MOST_WAIT_NS) {
        const int64_t now_ns = qn_clock_ns();
        if (now_ns < due_ns)
            continue;
        due_ns = qn_sampler_tick(s, now_ns);
        CHECK(due_ns > begin_ns && due_ns <= qn_clock_ns() + 2 * MS);
    }
    wait_for(&t.n_own, __atomic_load_n(&t.n_own, __ATOMIC_RELAXED) + 5);
    wait_for_reads(&fakes[2], 20);
    qn_sampler_stop(s);
    const int64_t n_reads = fakes[0].n_reads;
    qn_sampler_tick(s, qn_clock_ns());
    CHECK(fakes[0].n_reads == n_reads); /* it has stopped */
    check_noted(s, &t, begin_ns);
    CHECK(t.n_others >= 20 && t.n_own >= 5 && fakes[2].n_reads >= 20);
    qn_sampler_destroy(s);
}

/* A thread that does nothing but look whether a tick is due. */
typedef struct looker {
    qn_sampler *sampler;
    int is_over; /* atomic */
} looker;

static void look_often(void *context) {
    looker *l = context;
    while (!__atomic_load_n(&l->is_over, __ATOMIC_ACQUIRE))
        qn_sampler_tick(l->sampler, qn_clock_ns());
}

/* Several at once and the sampler's own, through the stop: no tick twice. */
static void check_many_others(void) {
    enum { N_LOOKERS = 3 };
    looker l = {0};
    qn_thread *threads[N_LOOKERS];
    ticked t = {0};
    reset_fakes();
    const qn_sampler_options options = {.interval_ns = 2 * MS, .user = &t, .on_tick = note_tick};
    CHECK_OK(qn_sampler_create(&options, &l.sampler));
    const int64_t begin_ns = qn_clock_ns();
    CHECK_OK(qn_sampler_start(l.sampler));
    for (int i = 0; i < N_LOOKERS; i++)
        CHECK_OK(qn_thread_start(NULL, look_often, &l, &threads[i]));
    wait_for(&t.n_own, 20); /* whoever took them: `by` is nobody */
    qn_sampler_stop(l.sampler);
    sleep_ns(10 * MS);
    __atomic_store_n(&l.is_over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < N_LOOKERS; i++)
        qn_thread_join(threads[i]);
    check_noted(l.sampler, &t, begin_ns);
    CHECK(t.n_own >= 20);
    qn_sampler_destroy(l.sampler);
}

/* A source that follows another has its readings, and is read as often as that one, whatever its
 * own period. */
static void check_followed(void) {
    qn_sampler *s;
    size_t n;
    reset_fakes();
    fakes[3] = (fake){.name = "follower", .is_there = true, .n_channels = 1};
    fakes[3].channels[0] = (qn_channel){.source = "follower", .inside = -1};
    n_followed = n_apart = 0;
    CHECK_OK(qn_sampler_create(&(qn_sampler_options){.interval_ns = 5 * MS}, &s));
    CHECK_OK(qn_sampler_start(s));
    wait_for_reads(&fakes[1], 5);
    qn_sampler_stop(s);
    CHECK(n_followed > 2 && n_apart == 0 && n_followed == fakes[1].n_reads);
    CHECK(qn_sampler_readings(s, qn_sampler_channel_count(s) - 1, &n) && n > 2);
    fakes[3].is_there = false;
    qn_sampler_destroy(s);
}

/* One whose readings stay the same is read less and less often, and once more at the end. */
static void check_steady(void) {
    const fake *steady = &fakes[0], *other = &fakes[1];
    qn_sampler *s;
    reset_fakes();
    fakes[0].is_steady = true;
    CHECK_OK(qn_sampler_create(&(qn_sampler_options){.interval_ns = 5 * MS}, &s));
    CHECK_OK(qn_sampler_start(s));
    wait_for_reads(other, 15); /* 70 ticks */
    const int64_t stop_ns = qn_clock_ns();
    qn_sampler_stop(s);
    const qn_sampler_cost cost = qn_sampler_get_cost(s);
    /* At the start, after 2, 4, 8 and 16 ticks, then every 16, which are 80 ms, and at the end. */
    CHECK(steady->n_reads >= 4 && steady->n_reads <= 6 + (cost.n_ticks + cost.n_missed) / 16);
    CHECK(steady->n_reads > 0 && steady->read_ns[steady->n_reads - 1] >= stop_ns);
    qn_sampler_destroy(s);
}

/* A source that takes longer than the interval makes ticks fall out, but none shift. */
static void check_missed_ticks(void) {
    qn_sampler *s;
    reset_fakes();
    fakes[0].sleep_ns = 12 * MS;
    fakes[2].is_there = false;
    qn_sampler_options options = {.interval_ns = 5 * MS};
    CHECK_OK(qn_sampler_create(&options, &s));
    const int64_t begin_ns = qn_clock_ns();
    CHECK_OK(qn_sampler_start(s));
    wait_for_reads(&fakes[0], 10);
    qn_sampler_stop(s);
    const qn_sampler_cost cost = qn_sampler_get_cost(s);
    CHECK(cost.n_missed >= cost.n_ticks / 2);
    check_tick_count(&cost, begin_ns, 5 * MS);
    qn_sampler_destroy(s);
}

/* What runs shorter than an interval is measured from start to stop all the same. */
static void check_last_reading(int n_tries) {
    qn_sampler *s;
    size_t n;
    reset_fakes();
    qn_sampler_options options = {.interval_ns = 1000 * MS};
    CHECK_OK(qn_sampler_create(&options, &s));
    const int64_t begin_ns = qn_clock_ns();
    CHECK_OK(qn_sampler_start(s));
    CHECK_FAILS(qn_sampler_start(s), QN_ERROR_ARGUMENT, "before");
    sleep_ns(40 * MS);
    const int64_t stop_ns = qn_clock_ns();
    qn_sampler_stop(s);
    if (qn_clock_ns() - begin_ns > 900 * MS && n_tries > 0) {
        qn_sampler_destroy(s);
        check_last_reading(n_tries - 1); /* the machine held us up until the first tick was due */
        return;
    }
    CHECK(fakes[0].n_reads == 2 && fakes[1].n_reads == 2); /* of start and stop: no tick between */
    for (int i = 0; i < 3; i++) {
        const qn_reading *readings = qn_sampler_readings(s, i, &n);
        if (i == 2 && fakes[2].n_reads < 2)
            continue; /* its thread came late */
        CHECK(n == 1 && readings[0].end_ns >= stop_ns);
        CHECK(i == 2 || (n == 1 && readings[0].begin_ns < stop_ns - 20 * MS));
    }
    qn_sampler_stop(s);
    qn_sampler_destroy(s);
    options.interval_ns = MS / 2;
    CHECK_FAILS(qn_sampler_create(&options, &s), QN_ERROR_ARGUMENT, "choose 1 to 1000 ms");
    qn_sampler_destroy(NULL);
}

/* ---- memory ---- */

static double integral(const qn_reading *readings, size_t n, double *highest) {
    double sum = 0;
    *highest = 0;
    for (size_t i = 0; i < n; i++) {
        sum += readings[i].value * (double)(readings[i].end_ns - readings[i].begin_ns);
        *highest = readings[i].value > *highest ? readings[i].value : *highest;
    }
    return sum;
}

/* Rows of different paces in little memory: value times time stays, time is told once and no more
 * than was measured, and the highest stays the highest. */
static void check_history(void) {
    enum { N_ROWS = 4, N_READINGS = 20000 };
    static const int paces[N_ROWS] = {1, 1, 7, 5000};
    qn_history history;
    double sums[N_ROWS] = {0}, most[N_ROWS] = {0}, spans[N_ROWS] = {0};
    int64_t at_ns[N_ROWS] = {0};
    size_t n, n_all = 0;
    srand(5);
    CHECK_OK(qn_history_init(qn_allocator_default(), N_ROWS, 1000 * sizeof(qn_reading), &history));
    history.rows[1].is_highest = true;
    for (int i = 0; i < N_READINGS; i++)
        for (int row = 0; row < N_ROWS; row++) {
            if (i % paces[row] != 0)
                continue;
            const int64_t gap = rand() % 10 == 0 ? rand() % 1000 : 0;
            const int64_t begin = at_ns[row] + gap, end = begin + 1 + rand() % 1000;
            const qn_reading reading = {begin, end, rand() % 1000};
            qn_history_add(&history, row, &reading);
            at_ns[row] = end;
            sums[row] += reading.value * (double)(end - begin);
            spans[row] += (double)(end - begin);
            most[row] = reading.value > most[row] ? reading.value : most[row];
        }
    for (int row = 0; row < N_ROWS; row++) {
        double highest, span = 0;
        const qn_reading *readings = qn_history_get(&history, row, &n);
        const double sum = integral(readings, n, &highest);
        n_all += n;
        CHECK(n > 0 && readings[n - 1].end_ns == at_ns[row]);
        for (size_t i = 0; i < n; i++) {
            span += (double)(readings[i].end_ns - readings[i].begin_ns);
            CHECK(i == 0 || readings[i].begin_ns >= readings[i - 1].end_ns);
        }
        CHECK(span == spans[row]);
        CHECK(row == 1 ? highest == most[row] : fabs(sum - sums[row]) < 1e-9 * sums[row]);
    }
    CHECK(n_all <= 1000 && n_all > 300);
    qn_history_get(&history, 3, &n);
    CHECK(n == N_READINGS / 5000); /* what is rare is not merged */
    qn_history_deinit(&history);
}

/* The whole sampler in little memory. */
static void check_bounded(void) {
    qn_sampler *s;
    size_t n;
    double highest;
    reset_fakes();
    qn_sampler_options options = {.interval_ns = MS, .most_bytes = 60 * sizeof(qn_reading)};
    CHECK_OK(qn_sampler_create(&options, &s));
    const size_t bytes = qn_sampler_get_cost(s).bytes;
    CHECK(bytes < 64 * 1024);
    CHECK_OK(qn_sampler_start(s));
    for (int i = 0; i < 3; i++)
        wait_for_reads(&fakes[i], i == 1 ? 5 : 70);
    qn_sampler_stop(s);
    CHECK(fakes[0].n_reads > 60);
    for (int i = 0; i < 3; i++) {
        const qn_reading *readings = qn_sampler_readings(s, i, &n);
        const fake *f = &fakes[i];
        CHECK(n > 0 && n <= 60);
        CHECK(integral(readings, n, &highest) ==
              (double)(f->read_ns[f->n_reads - 1] - f->read_ns[0]));
    }
    CHECK(qn_sampler_get_cost(s).bytes == bytes); /* the threads' handles are back */
    qn_sampler_destroy(s);
}

/* ---- what sources say ---- */

static void count_lines(void *user, int level, const char *text) {
    (void)level;
    CHECK(strstr(text, ": is lost") != NULL);
    __atomic_fetch_add((int *)user, 1, __ATOMIC_RELAXED);
}

static void check_said(void) {
    qn_sampler *s;
    int n_lines = 0;
    const qn_log log = {&n_lines, count_lines, NULL};
    reset_fakes();
    fakes[0].is_noisy = fakes[2].is_noisy = true;
    qn_sampler_options options = {.interval_ns = 2 * MS, .log = &log};
    CHECK_OK(qn_sampler_create(&options, &s));
    CHECK(qn_sampler_said(s, 0) == NULL);
    CHECK_OK(qn_sampler_start(s));
    wait_for_reads(&fakes[0], 3);
    wait_for_reads(&fakes[2], 3);
    qn_sampler_stop(s);
    CHECK(n_lines == 2 && qn_sampler_said(s, 2) == NULL && qn_sampler_said(s, -1) == NULL);
    const char *first = qn_sampler_said(s, 0), *second = qn_sampler_said(s, 1);
    CHECK(first && second && strcmp(first, second) != 0);
    CHECK(first && second &&
          (strcmp(first, "fast: is lost") == 0 || strcmp(second, "fast: is lost") == 0));
    qn_sampler_destroy(s);
}

/* ---- what counts ---- */

static void put_power(int source, int channel, qn_part part, int inside, bool is_estimated) {
    fake *f = &fakes[source];
    f->channels[channel] = (qn_channel){.source = f->name,
                                        .quantity = QN_QUANTITY_POWER,
                                        .part = part,
                                        .inside = inside,
                                        .is_estimated = is_estimated};
    f->n_channels = channel + 1 > f->n_channels ? channel + 1 : f->n_channels;
}

/* What counts, as a text of 0 and 1 by channel: as created, or after a run of some ticks. */
static const char *counted(bool is_run) {
    static char text[3 * MOST_CHANNELS + 1];
    qn_sampler *s;
    qn_sampler_options options = {.interval_ns = MS};
    CHECK_OK(qn_sampler_create(&options, &s));
    if (is_run) {
        CHECK_OK(qn_sampler_start(s));
        for (int i = 0; i < 3; i++)
            wait_for_reads(&fakes[i],
                           fakes[i].is_there ? 3 : 0); /* the first of them tells nothing */
        qn_sampler_stop(s);
    }
    const int n = qn_sampler_channel_count(s);
    for (int i = 0; i < n; i++)
        text[i] = qn_sampler_counts(s, i) ? '1' : '0';
    text[n] = 0;
    qn_sampler_destroy(s);
    return text;
}

static void check_counts(void) {
    reset_fakes(); /* no power at all */
    CHECK(strcmp(counted(false), "000") == 0);
    /* a package with its cores and its memory beside it, a GPU elsewhere, and estimates */
    put_power(0, 0, QN_PART_CPU, -1, false);
    put_power(0, 1, QN_PART_CORE, 0, false);
    put_power(0, 2, QN_PART_MEMORY, -1, false);
    put_power(1, 0, QN_PART_GPU, -1, false);
    put_power(2, 0, QN_PART_CPU, -1, true);
    put_power(2, 1, QN_PART_SOC, -1, true);
    put_power(2, 2, QN_PART_SYSTEM, -1, true);
    CHECK(strcmp(counted(false), "1011010") == 0);
    CHECK(strcmp(counted(true), "1011010") == 0);
    /* the system's own sensor stands alone, as long as it says anything */
    put_power(1, 1, QN_PART_SYSTEM, -1, false);
    CHECK(strcmp(counted(false), "00001000") == 0);
    CHECK(strcmp(counted(true), "00001000") == 0);
    fakes[1].is_silent = true;
    CHECK(strcmp(counted(true), "10100010") == 0);
    /* two packages of one source, and the same processor by another, beside GPUs of both */
    reset_fakes();
    put_power(0, 0, QN_PART_CPU, -1, false);
    put_power(0, 1, QN_PART_CPU, -1, false);
    put_power(0, 2, QN_PART_GPU, -1, false);
    put_power(1, 0, QN_PART_CPU, -1, false);
    put_power(1, 1, QN_PART_GPU, -1, false);
    CHECK(strcmp(counted(false), "111010") == 0);
    /* nothing is measured: the estimate of the whole and not of what lies in it */
    reset_fakes();
    put_power(2, 0, QN_PART_SYSTEM, -1, true);
    put_power(2, 1, QN_PART_CPU, 0, true);
    CHECK(strcmp(counted(false), "0010") == 0);
}

/* ---- busy time ---- */

static void check_busy(void) {
    qn_busy busy = {0};
    qn_reading r;
    CHECK(!qn_busy_add(&busy, 100, 5000, 1, &r));
    CHECK(qn_busy_add(&busy, 200, 5040, 1, &r) && r.begin_ns == 100 && r.end_ns == 200);
    CHECK(fabs(r.value - 0.4) < 1e-12);
    /* what comes late is told in the next readings, and never more than one core */
    CHECK(qn_busy_add(&busy, 300, 5190, 1, &r) && r.value == 1);
    CHECK(qn_busy_add(&busy, 400, 5190, 1, &r) && fabs(r.value - 0.5) < 1e-12);
    CHECK(qn_busy_add(&busy, 500, 5390, 2, &r) && r.value == 2);
    CHECK(!qn_busy_add(&busy, 500, 5390, 1, &r));
    CHECK(!qn_busy_add(&busy, 600, 10, 1, &r)); /* it began anew */
    CHECK(qn_busy_add(&busy, 700, 60, 1, &r) && r.begin_ns == 600 && fabs(r.value - 0.5) < 1e-12);
}

/* ---- failing allocations ---- */

static void check_failing_allocations(void) {
    int n_failed = 0;
    reset_fakes();
    for (int n = 0;; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        const qn_sampler_options options = {.allocator = &allocator};
        qn_sampler *s = NULL;
        qn_status status = qn_sampler_create(&options, &s);
        if (status == QN_OK)
            status = qn_sampler_start(s);
        qn_sampler_destroy(s);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
        CHECK(status == QN_ERROR_MEMORY);
        n_failed++;
    }
    CHECK(n_failed > 10);
}

int main(void) {
    check_busy();
    check_history();
    check_ticks();
    check_others();
    check_many_others();
    check_followed();
    check_steady();
    check_missed_ticks();
    check_last_reading(10);
    check_bounded();
    check_said();
    check_counts();
    check_failing_allocations();
    return checks_finish();
}
