/* See observations.h. Each rule is a function of the rows; a threshold is a constant with a name.
 */
#include "study/observations.h"

#include "base/print.h"
#include "base/text.h"
#include "graph/graph.h"
#include "meter/load.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A GPU below this utilisation takes no part in training. */
static const double gpu_used = 0.01;
/* 1: "busy" and "mostly idle" as means. */
static const double busy_gpu = 0.6, idle_cpu = 0.6;
/* 2, 7: height of the autocorrelation at one step that counts as periodic. */
static const double periodic = 0.5;
/* Part of the models (or cells) for which a claim must hold. */
static const double most_models = 0.75;
/* 3: points by which GPU utilisation must grow and CPU utilisation may change, on average. */
static const double gpu_growth = 0.02, cpu_change = 0.05;
/* 4, 5: difference of utilisation between kinds of cores, and between domains. */
static const double kind_difference = 0.1, domain_difference = 0.2;
/* 9: part of the growth of memory that feature maps and workspace must make. */
static const double intermediate_growth = 0.9;
/* 10: growth of throughput that counts. 11: ratio of the largest factor to the smallest. */
static const double throughput_growth = 1.05, factor_spread = 2;
/* Part of the cores by other programs, from which time, use and power say little of training. */
static const double others_noted = QN_LOAD_NOTED;
/* 12: standard errors by which accuracy must differ. */
static const double errors_apart = 2;

enum { MOST_MODELS = 256 };

const char *qn_verdict_text(qn_verdict verdict) {
    static const char *const texts[] = {
        [QN_VERDICT_CONFIRMED] = "confirmed",
        [QN_VERDICT_NOT_CONFIRMED] = "not confirmed",
        [QN_VERDICT_UNCERTAIN] = "uncertain",
        [QN_VERDICT_UNKNOWN] = "cannot be judged here",
    };
    return texts[verdict];
}

/* Appends to what is said of a finding. */
static void say(qn_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(qn_finding *f, const char *format, ...) {
    const size_t used = strlen(f->here);
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(f->here + used, sizeof f->here - used, format, arguments);
    va_end(arguments);
}

static void decide(qn_finding *f, bool is_confirmed) {
    f->verdict = is_confirmed ? QN_VERDICT_CONFIRMED : QN_VERDICT_NOT_CONFIRMED;
}

/* A claim on which a part of n models agrees: sure, wherever in its interval each step time lies,
 * or possible, somewhere in it. */
static void decide_by_part(qn_finding *f, int n_sure, int n_possible, int n) {
    if (n_sure >= most_models * n)
        f->verdict = QN_VERDICT_CONFIRMED;
    else
        f->verdict = n_possible < most_models * n ? QN_VERDICT_NOT_CONFIRMED : QN_VERDICT_UNCERTAIN;
}

/* ---- means over rows ---- */

typedef double (*qn_row_value)(const qn_study_row *row);

static double gpu_of(const qn_study_row *r) {
    return r->gpu;
}

static double cpu_of(const qn_study_row *r) {
    return r->cpu;
}

static double correlation_of(const qn_study_row *r) {
    return r->correlation;
}

static double energy_of(const qn_study_row *r) {
    return r->energy_mj;
}

static double throughput_of(const qn_study_row *r) {
    return r->throughput;
}

static double use_periodicity_of(const qn_study_row *r) {
    return r->use_periodicity;
}

static double power_periodicity_of(const qn_study_row *r) {
    return r->power_periodicity;
}

/* Of the rows of a domain, or of all (-1), with a finite value; NaN: there are none. */
static double mean_of(const qn_study_facts *facts, int domain, qn_row_value value) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < facts->n_rows; i++) {
        const qn_study_row *r = &facts->rows[i];
        if ((domain >= 0 && (int)r->domain != domain) || !isfinite(value(r)))
            continue;
        sum += value(r);
        n++;
    }
    return n > 0 ? sum / n : (double)NAN;
}

/* Rows with a finite value, and those of them above a threshold. */
static int count_above(const qn_study_facts *facts, qn_row_value value, double threshold,
                       int *n_above) {
    int n = 0;
    *n_above = 0;
    for (int i = 0; i < facts->n_rows; i++) {
        const double v = value(&facts->rows[i]);
        n += isfinite(v);
        *n_above += isfinite(v) && v >= threshold;
    }
    return n;
}

/* Whether training ran on a GPU; says why not. */
static bool has_gpu(const qn_study_facts *facts, qn_finding *f) {
    int n_used;
    if (count_above(facts, gpu_of, gpu_used, &n_used) == 0)
        say(f, "No GPU was seen.");
    else if (n_used == 0)
        say(f, "There is a GPU, but training did not use it.");
    return n_used > 0;
}

/* ---- the smallest and the largest batch of each model ---- */

typedef struct qn_pair {
    const qn_study_row *small, *large;
} qn_pair;

static bool is_of_pair(const qn_pair *p, const qn_study_row *r) {
    return strcmp(p->small->model, r->model) == 0;
}

/* Models with a finite value at two batch sizes or more. */
static int find_pairs(const qn_study_facts *facts, qn_row_value value, qn_pair pairs[MOST_MODELS]) {
    int n = 0, n_kept = 0;
    for (int i = 0; i < facts->n_rows; i++) {
        const qn_study_row *r = &facts->rows[i];
        int at = 0;
        if (!isfinite(value(r)))
            continue;
        while (at < n && !is_of_pair(&pairs[at], r))
            at++;
        if (at == n && n == MOST_MODELS)
            continue;
        if (at == n)
            pairs[n++] = (qn_pair){r, r};
        pairs[at].small = r->batch < pairs[at].small->batch ? r : pairs[at].small;
        pairs[at].large = r->batch > pairs[at].large->batch ? r : pairs[at].large;
    }
    for (int i = 0; i < n; i++) {
        if (pairs[i].small->batch < pairs[i].large->batch)
            pairs[n_kept++] = pairs[i];
    }
    return n_kept;
}

/* value at the largest batch / value at the smallest */
static double factor_of(const qn_pair *p, qn_row_value value) {
    return value(p->large) / value(p->small);
}

/* A factor between two batches, with the ends of both steps' intervals. */
typedef struct qn_range {
    double low, high;
} qn_range;

/* A row's interval as parts of its step time: 1 where it is not known. */
static qn_range reach_of(const qn_study_row *r) {
    const double low = r->step_ms_low / r->step_ms, high = r->step_ms_high / r->step_ms;
    return (qn_range){low > 0 && low < 1 ? low : 1, high > 1 ? high : 1};
}

/* Of a value in proportion to time, as energy, or to its inverse, as throughput. */
static qn_range factors_of(const qn_pair *p, qn_row_value value, bool is_inverse) {
    const qn_range s = reach_of(p->small), l = reach_of(p->large);
    const double factor = factor_of(p, value);
    if (is_inverse)
        return (qn_range){factor * s.low / l.high, factor * s.high / l.low};
    return (qn_range){factor * l.low / s.high, factor * l.high / s.low};
}

/* The pairs with the smallest and the largest factor. */
static void find_extremes(const qn_pair *pairs, int n, qn_row_value value, int *least, int *most) {
    *least = *most = 0;
    for (int i = 1; i < n; i++) {
        if (factor_of(&pairs[i], value) < factor_of(&pairs[*least], value))
            *least = i;
        if (factor_of(&pairs[i], value) > factor_of(&pairs[*most], value))
            *most = i;
    }
}

static void say_factors(qn_finding *f, const qn_pair *pairs, int n, qn_row_value value) {
    int least, most;
    find_extremes(pairs, n, value, &least, &most);
    if (n > 1)
        say(f, "from %.2f times (%s) to ", factor_of(&pairs[least], value),
            pairs[least].small->model);
    say(f, "%.2f times (%s)", factor_of(&pairs[most], value), pairs[most].small->model);
}

static const char few_batches[] = "This needs a model at two batch sizes or more.";

/* ---- the rules ---- */

static void judge_balance(const qn_study_facts *facts, qn_finding *f) {
    const double gpu = mean_of(facts, QN_DOMAIN_VISION, gpu_of);
    const double cpu = mean_of(facts, QN_DOMAIN_VISION, cpu_of);
    const double correlation = mean_of(facts, QN_DOMAIN_VISION, correlation_of);
    const double all_cpu = mean_of(facts, -1, cpu_of);
    if (!has_gpu(facts, f)) {
        if (isfinite(all_cpu))
            say(f, " The cores do the work: %.0f %% busy on average.", 100 * all_cpu);
        return;
    }
    if (!isfinite(gpu) || !isfinite(cpu) || !isfinite(correlation)) {
        say(f, "No vision model has both utilisations over time.");
        return;
    }
    decide(f, gpu >= busy_gpu && cpu <= idle_cpu && correlation < 0);
    say(f, "Vision: GPU %.0f %%, cores %.0f %% busy; correlation over time %.2f.", 100 * gpu,
        100 * cpu, correlation);
}

/* Periodicity of the cells in which it could be seen; their median must be high enough, which is
 * the same as half of them being so. */
static void judge_rhythm(const qn_study_facts *facts, qn_row_value value, const char *what,
                         qn_finding *f) {
    int n_high;
    const int n = count_above(facts, value, periodic, &n_high);
    if (n == 0)
        return;
    decide(f, 2 * n_high >= n);
    say(f,
        "%s repeats with the step (autocorrelation of %.1f or more) in %d of %d cells; mean %.2f.",
        what, periodic, n_high, n, mean_of(facts, -1, value));
}

static void judge_use_rhythm(const qn_study_facts *facts, qn_finding *f) {
    judge_rhythm(facts, use_periodicity_of, "Utilisation", f);
    if (f->verdict == QN_VERDICT_UNKNOWN)
        say(f, "No step was long enough for the sampler to resolve its rhythm.");
}

static void judge_power_rhythm(const qn_study_facts *facts, qn_finding *f) {
    bool is_estimated = false;
    judge_rhythm(facts, power_periodicity_of, "Power", f);
    if (f->verdict != QN_VERDICT_UNKNOWN)
        return;
    for (int i = 0; i < facts->n_rows; i++)
        is_estimated |= facts->rows[i].power_is_estimated;
    say(f, is_estimated ? "Power is estimated from utilisation here, so its rhythm would be that "
                          "of utilisation."
                        : "No readings from a power sensor, or no step was long enough for them.");
}

static void judge_gpu_batch(const qn_study_facts *facts, qn_finding *f) {
    qn_pair pairs[MOST_MODELS];
    double gpu = 0, cpu = 0;
    int n_cpu = 0;
    const int n = find_pairs(facts, gpu_of, pairs);
    if (!has_gpu(facts, f))
        return;
    for (int i = 0; i < n; i++) {
        gpu += (pairs[i].large->gpu - pairs[i].small->gpu) / n;
        if (!isfinite(pairs[i].large->cpu - pairs[i].small->cpu))
            continue;
        cpu += fabs(pairs[i].large->cpu - pairs[i].small->cpu);
        n_cpu++;
    }
    if (n == 0 || n_cpu == 0) {
        say(f, few_batches);
        return;
    }
    cpu /= n_cpu;
    decide(f, gpu >= gpu_growth && cpu <= cpu_change);
    say(f,
        "From the smallest to the largest batch, GPU utilisation changes by %+.1f points, core "
        "utilisation by %.1f points (means over %d models).",
        100 * gpu, 100 * cpu, n);
}

static void judge_kinds(const qn_study_facts *facts, qn_finding *f) {
    const int n = facts->cores.n_kinds < QN_STUDY_KINDS ? facts->cores.n_kinds : QN_STUDY_KINDS;
    double most = -INFINITY, least = INFINITY, most_idle = -INFINITY, least_idle = INFINITY;
    if (n < 2) {
        say(f, n == 1 ? "All %d cores are of one kind." : "The kinds of its %d cores are unknown.",
            facts->cores.n_cores);
        return;
    }
    for (int k = 0; k < n; k++) {
        double use = 0, idle = 0;
        int n_seen = 0;
        for (int i = 0; i < facts->n_rows; i++) {
            if (!isfinite(facts->rows[i].kind_use[k]))
                continue;
            use += facts->rows[i].kind_use[k];
            idle += facts->rows[i].kind_idle[k];
            n_seen++;
        }
        use /= n_seen;
        idle /= n_seen;
        most = fmax(most, use);
        least = fmin(least, use);
        most_idle = fmax(most_idle, idle);
        least_idle = fmin(least_idle, idle);
        if (n_seen > 0)
            say(f, "%s%s: %.0f %% busy, idle %.0f %% of the time", *f->here ? "; " : "",
                facts->cores.names[k], 100 * use, 100 * idle);
    }
    say(f, *f->here ? "." : "Utilisation of single cores was not measured.");
    if (isfinite(most - least))
        decide(f, most - least >= kind_difference || most_idle - least_idle >= kind_difference);
}

static void judge_domain(const qn_study_facts *facts, qn_finding *f) {
    const double vision = mean_of(facts, QN_DOMAIN_VISION, gpu_of);
    const double lstm = mean_of(facts, QN_DOMAIN_LSTM, gpu_of);
    if (!has_gpu(facts, f))
        return;
    if (!isfinite(vision) || !isfinite(lstm)) {
        say(f, "This needs vision models and LSTMs.");
        return;
    }
    decide(f, vision - lstm >= domain_difference);
    say(f, "GPU: vision %.0f %%, LSTM %.0f %% busy.", 100 * vision, 100 * lstm);
}

/* Rows of a domain with energy of GPU, cores and memory; how many of them have `part` on top. */
static int count_top(const qn_study_facts *facts, qn_domain domain, qn_part part, int *n_top) {
    int n = 0;
    *n_top = 0;
    for (int i = 0; i < facts->n_rows; i++) {
        const double *j = facts->rows[i].part_j;
        const double all[] = {j[QN_PART_GPU], j[QN_PART_CPU], j[QN_PART_MEMORY]};
        if (facts->rows[i].domain != domain || !isfinite(all[0] + all[1] + all[2]))
            continue;
        n++;
        *n_top += j[part] >= fmax(all[0], fmax(all[1], all[2]));
    }
    return n;
}

static void judge_shares(const qn_study_facts *facts, qn_finding *f) {
    int n_gpu, n_memory;
    const int n_vision = count_top(facts, QN_DOMAIN_VISION, QN_PART_GPU, &n_gpu);
    const int n_lstm = count_top(facts, QN_DOMAIN_LSTM, QN_PART_MEMORY, &n_memory);
    if (!has_gpu(facts, f))
        return;
    if (n_vision == 0 || n_lstm == 0) {
        say(f, "This needs power rails of GPU, cores and memory, vision models and LSTMs.");
        return;
    }
    decide(f, n_gpu >= most_models * n_vision && n_memory >= most_models * n_lstm);
    say(f, "The GPU takes most power in %d of %d vision cells, memory in %d of %d LSTM cells.",
        n_gpu, n_vision, n_memory, n_lstm);
}

/* Names the vision models whose step costs most and least at the largest batch that all have. */
static void say_costliest(const qn_study_facts *facts, qn_finding *f) {
    const qn_study_row *most = NULL, *least = NULL;
    int64_t batch = 0;
    for (int i = 0; i < facts->n_rows; i++) {
        const qn_study_row *r = &facts->rows[i];
        if (r->domain == QN_DOMAIN_VISION && isfinite(r->energy_mj) && (!batch || r->batch < batch))
            batch = r->batch;
    }
    for (int i = 0; i < facts->n_rows; i++) {
        const qn_study_row *r = &facts->rows[i];
        if (r->domain != QN_DOMAIN_VISION || !isfinite(r->energy_mj) || r->batch != batch)
            continue;
        most = !most || r->energy_mj > most->energy_mj ? r : most;
        least = !least || r->energy_mj < least->energy_mj ? r : least;
    }
    if (most && most != least)
        say(f, " At batch %lld %s costs most of the vision models, %s least.", (long long)batch,
            most->model, least->model);
}

static void judge_energy(const qn_study_facts *facts, qn_finding *f) {
    qn_pair pairs[MOST_MODELS];
    int n_so = 0, n_sure = 0, n_possible = 0;
    const int n = find_pairs(facts, energy_of, pairs);
    if (!isfinite(mean_of(facts, -1, energy_of))) {
        say(f, "No power sensor, and no estimate of power.");
        return;
    }
    if (n == 0) {
        say(f, few_batches);
        return;
    }
    for (int i = 0; i < n; i++) {
        const double factor = factor_of(&pairs[i], energy_of);
        const double work = (double)pairs[i].large->batch / (double)pairs[i].small->batch;
        const qn_range all = factors_of(&pairs[i], energy_of, false);
        n_so += factor > 1 && factor < work;
        n_sure += all.low > 1 && all.high < work;
        n_possible += all.high > 1 && all.low < work;
        f->is_estimated |= pairs[i].large->power_is_estimated;
    }
    decide_by_part(f, n_sure, n_possible, n);
    say(f, "From the smallest to the largest batch, a step costs ");
    say_factors(f, pairs, n, energy_of);
    say(f, "; more, but less than in proportion, in %d of %d models.", n_so, n);
    say_costliest(facts, f);
}

static double intermediate_of(const qn_study_row *r) {
    return r->memory[QN_KIND_FEATURE] + r->memory[QN_KIND_WORKSPACE];
}

static double total_of(const qn_study_row *r) {
    double sum = 0;
    for (int i = 0; i < QN_KIND_COUNT; i++)
        sum += r->memory[i];
    return sum > 0 ? sum : (double)NAN;
}

static void judge_memory(const qn_study_facts *facts, qn_finding *f) {
    qn_pair pairs[MOST_MODELS];
    char small[QN_SIZE_TEXT], large[QN_SIZE_TEXT];
    int n_so = 0, least, most;
    const int n = find_pairs(facts, total_of, pairs);
    if (n == 0) {
        say(f, few_batches);
        return;
    }
    for (int i = 0; i < n; i++) {
        const qn_study_row *s = pairs[i].small, *l = pairs[i].large;
        const double growth = total_of(l) - total_of(s);
        n_so += growth > 0 &&
                intermediate_of(l) - intermediate_of(s) >= intermediate_growth * growth &&
                s->memory[QN_KIND_PARAMETER] == l->memory[QN_KIND_PARAMETER];
    }
    decide(f, n_so >= most_models * n);
    find_extremes(pairs, n, total_of, &least, &most);
    const qn_pair *p = &pairs[most];
    say(f,
        "Feature maps and workspace make up %.0f %% or more of the growth and parameters stay "
        "constant in %d of %d models (%s: %s of them at batch %lld, %s at %lld).",
        100 * intermediate_growth, n_so, n, p->small->model,
        qn_text_print_size((uint64_t)intermediate_of(p->small), small), (long long)p->small->batch,
        qn_text_print_size((uint64_t)intermediate_of(p->large), large), (long long)p->large->batch);
    say(f, facts->n_left_out > 0 ? " %d cells did not fit in %s." : " All cells fit.",
        facts->n_left_out, qn_text_print_size((uint64_t)fmax(facts->memory_limit, 0), small));
}

static void judge_throughput(const qn_study_facts *facts, qn_finding *f) {
    qn_pair pairs[MOST_MODELS];
    int n_so = 0, n_sure = 0, n_possible = 0;
    const int n = find_pairs(facts, throughput_of, pairs);
    if (n == 0) {
        say(f, few_batches);
        return;
    }
    for (int i = 0; i < n; i++) {
        const qn_range all = factors_of(&pairs[i], throughput_of, true);
        n_so += factor_of(&pairs[i], throughput_of) >= throughput_growth;
        n_sure += all.low >= throughput_growth;
        n_possible += all.high >= throughput_growth;
    }
    decide_by_part(f, n_sure, n_possible, n);
    say(f,
        "Throughput grows by %.0f %% or more in %d of %d models: ", 100 * (throughput_growth - 1),
        n_so, n);
    say_factors(f, pairs, n, throughput_of);
    say(f, ".");
}

static void judge_factors(const qn_study_facts *facts, qn_finding *f) {
    qn_pair pairs[MOST_MODELS];
    qn_range least = {INFINITY, INFINITY}, most = {0, 0};
    const int n = find_pairs(facts, throughput_of, pairs);
    if (n < 2) {
        say(f, "This needs two models at two batch sizes or more.");
        return;
    }
    for (int i = 0; i < n; i++) {
        const qn_range all = factors_of(&pairs[i], throughput_of, true);
        least = (qn_range){fmin(least.low, all.low), fmin(least.high, all.high)};
        most = (qn_range){fmax(most.low, all.low), fmax(most.high, all.high)};
    }
    decide(f, most.low >= factor_spread * least.high);
    if (most.low < factor_spread * least.high && most.high >= factor_spread * least.low)
        f->verdict = QN_VERDICT_UNCERTAIN;
    say(f, "Throughput grows ");
    say_factors(f, pairs, n, throughput_of);
    say(f, ".");
}

/* Standard errors by which accuracy after the last day differs from that before the first: of a
 * difference between paired samples (McNemar 1947). */
static double errors_of(const qn_drip *d) {
    const qn_drip_day *last = &d->days[d->n_days - 1];
    const double right = (double)last->became_right, wrong = (double)last->became_wrong;
    return right + wrong > 0 ? (right - wrong) / sqrt(right + wrong) : 0;
}

static void judge_drip(const qn_study_facts *facts, qn_finding *f) {
    int n_up = 0, n_down = 0;
    if (facts->n_drips == 0) {
        say(f, "No drip training was run.");
        return;
    }
    for (int i = 0; i < facts->n_drips; i++) {
        const qn_drip *d = facts->drips[i];
        if (i == 0)
            say(f, "%s on %s, %d days: ", d->model, d->data, d->n_days - 1);
        n_up += errors_of(d) >= errors_apart;
        n_down += errors_of(d) <= -errors_apart;
        say(f, "%sbatch %lld %.2f to %.2f %%", i ? "; " : "", (long long)d->batch,
            100 * d->days[0].accuracy, 100 * d->days[d->n_days - 1].accuracy);
    }
    decide(f, n_up > 0 && n_down == 0);
    say(f, ". Beyond chance: %d up, %d down.", n_up, n_down);
}

/* ---- the list ---- */

typedef struct observation {
    const char *title, *claim, *theirs;
    void (*judge)(const qn_study_facts *facts, qn_finding *finding);
    bool is_still; /* rests on bytes or accuracy, which other programs do not change */
} observation;

static const observation observations[QN_OBSERVATIONS] = {
    {"GPU busy, CPU idle",
     "The GPU is busy and the cores are mostly idle; one is low when the other is high.",
     "GPU up to 96 %, cores 0 to 60 %", judge_balance, false},
    {"use is periodic", "Utilisation is periodic with the step as its period, hence predictable.",
     "seen in all models", judge_use_rhythm, false},
    {"GPU use by batch", "GPU utilisation grows with the batch, core utilisation does not.",
     "batch 4 to 64: DenseNet 81.6 to 96.4 %, SqueezeNet 71.4 to 84.5 %, ResNet50 85.6 to 95.6 %; "
     "cores 2.1 points",
     judge_gpu_batch, false},
    {"kinds of cores", "Cores of different kinds are used differently.",
     "the two Denver2 cores are idle up to 65 % of the time", judge_kinds, false},
    {"GPU use by domain", "GPU utilisation depends on the domain.",
     "vision about 95 %, LSTM about 25 %", judge_domain, false},
    {"where power goes", "The GPU takes most power in vision models, memory in the LSTM.",
     "vision: GPU 4 times the CPU, 2 times memory, up to 57.4 % of the system", judge_shares,
     false},
    {"power is periodic", "Power is periodic, too.", "seen in all models", judge_power_rhythm,
     false},
    {"energy by batch", "Energy per step grows with the batch, less than in proportion.",
     "16 times the work costs 2.2 to 10.5 times the energy; of five vision models DenseNet40 costs "
     "most, SqueezeNet least",
     judge_energy, false},
    {"memory by batch",
     "Memory limits the batch: feature maps and workspace grow with it, parameters do not.",
     "DenseNet40: 2.05 GiB of them at batch 4, 5.5 GiB at 64; no batch from 128 on fitted into 8 "
     "GiB",
     judge_memory, true},
    {"throughput grows", "Throughput grows with the batch.",
     "ResNet50: 9 to 55 samples/s from batch 4 to 64", judge_throughput, false},
    {"different factors", "The growth of throughput differs greatly between models.",
     "deep RL 15.3 times (889 to 13,618 samples/s), ResNet50 6.1, DenseNet 1.7", judge_factors,
     false},
    {"drip training", "Training on the device, a little each day, slowly raises accuracy.",
     "DenseNet40, 64 new images a day for 17 days: 60.65 to 61.32 %", judge_drip, true},
};

/* What was measured beside other programs is no basis for a verdict on time, use or power. */
static void doubt(const qn_study_facts *facts, qn_finding *f) {
    double most = 0;
    int n = 0;
    for (int i = 0; i < facts->n_rows; i++) {
        if (!(facts->rows[i].others >= others_noted))
            continue;
        most = fmax(most, facts->rows[i].others);
        n++;
    }
    if (n == 0 || f->verdict == QN_VERDICT_UNKNOWN)
        return;
    f->verdict = QN_VERDICT_UNCERTAIN;
    say(f, " Other programs used up to %.0f %% of the cores in %d of %d cells.", 100 * most, n,
        facts->n_rows);
}

void qn_observations_judge(const qn_study_facts *facts, qn_finding findings[QN_OBSERVATIONS]) {
    for (int i = 0; i < QN_OBSERVATIONS; i++) {
        findings[i] = (qn_finding){.number = i + 1,
                                   .title = observations[i].title,
                                   .claim = observations[i].claim,
                                   .theirs = observations[i].theirs,
                                   .verdict = QN_VERDICT_UNKNOWN};
        observations[i].judge(facts, &findings[i]);
        if (!observations[i].is_still)
            doubt(facts, &findings[i]);
    }
}
