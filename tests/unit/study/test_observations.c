/* The rules of the twelve observations, on made-up numbers: each verdict of each rule, and what
 * lies at its thresholds. */
#include "study/observations.h"

#include "check.h"
#include "graph/graph.h"

#include <string.h>

enum { MOST_ROWS = 16 };

static qn_study_row rows[MOST_ROWS];
static qn_drip drips[3];
static const qn_drip *drip_list[] = {&drips[0], &drips[1], &drips[2]};
static qn_study_facts facts;

static const int two_kinds[] = {0, 0, 1, 1};

/* Nothing measured. */
static void begin(void) {
    memset(drips, 0, sizeof drips);
    facts = (qn_study_facts){
        .rows = rows,
        .drips = drip_list,
        .cores = {.n_kinds = 1, .names = {"cpu"}, .n_cores = 4, .kind = two_kinds}};
}

static qn_study_row *add_row(const char *model, qn_domain domain, int64_t batch) {
    qn_study_row *r = &rows[facts.n_rows++];
    *r = (qn_study_row){.model = model,
                        .domain = domain,
                        .batch = batch,
                        .step_ms = NAN,
                        .throughput = NAN,
                        .cpu = NAN,
                        .process = NAN,
                        .gpu = NAN,
                        .correlation = NAN,
                        .use_periodicity = NAN,
                        .power_periodicity = NAN,
                        .energy_mj = NAN,
                        .resident_bytes = NAN,
                        .step_ms_low = NAN,
                        .step_ms_high = NAN,
                        .others = NAN,
                        .inference_ms = NAN};
    for (int i = 0; i < QN_PART_COUNT; i++)
        r->part_j[i] = NAN;
    for (int i = 0; i < QN_STUDY_KINDS; i++)
        r->kind_use[i] = r->kind_idle[i] = NAN;
    return r;
}

static qn_finding judge(int number) {
    qn_finding findings[QN_OBSERVATIONS];
    qn_observations_judge(&facts, findings);
    CHECK(findings[number - 1].number == number);
    CHECK(*findings[number - 1].claim && *findings[number - 1].theirs);
    return findings[number - 1];
}

static void expect(int number, qn_verdict verdict, const char *text) {
    const qn_finding f = judge(number);
    if (f.verdict != verdict || !strstr(f.here, text))
        printf("observation %d: %s: %s\n", number, qn_verdict_text(f.verdict), f.here);
    CHECK(f.verdict == verdict);
    CHECK(strstr(f.here, text));
}

static void test_nothing(void) {
    begin();
    for (int i = 1; i <= QN_OBSERVATIONS; i++) {
        const qn_finding f = judge(i);
        CHECK(f.verdict == QN_VERDICT_UNKNOWN);
        CHECK(*f.here);
        CHECK(!strstr(f.here, "nan"));
    }
}

static void test_balance(void) {
    begin();
    qn_study_row *r = add_row("resnet50", QN_DOMAIN_VISION, 16);
    r->cpu = 0.9;
    expect(1, QN_VERDICT_UNKNOWN, "No GPU was seen. The cores do the work: 90 %");
    r->gpu = 0.001;
    expect(1, QN_VERDICT_UNKNOWN, "did not use it");
    r->gpu = 0.95;
    expect(1, QN_VERDICT_UNKNOWN, "over time");
    r->correlation = -0.4;
    expect(1, QN_VERDICT_NOT_CONFIRMED, "GPU 95 %, cores 90 % busy; correlation over time -0.40");
    r->cpu = 0.3;
    expect(1, QN_VERDICT_CONFIRMED, "GPU 95 %, cores 30 %");
    r->correlation = 0.1;
    expect(1, QN_VERDICT_NOT_CONFIRMED, "0.10");
    /* A domain that is not vision does not count. */
    r->correlation = -0.4;
    add_row("char-lstm", QN_DOMAIN_LSTM, 16)->gpu = 0.02;
    expect(1, QN_VERDICT_CONFIRMED, "GPU 95 %");
}

static void test_rhythm(void) {
    begin();
    qn_study_row *a = add_row("a", QN_DOMAIN_VISION, 4), *b = add_row("b", QN_DOMAIN_VISION, 4);
    qn_study_row *c = add_row("c", QN_DOMAIN_VISION, 4);
    expect(2, QN_VERDICT_UNKNOWN, "long enough");
    a->use_periodicity = 0.9;
    b->use_periodicity = 0.5;
    c->use_periodicity = 0.1;
    expect(2, QN_VERDICT_CONFIRMED, "in 2 of 3 cells; mean 0.50");
    b->use_periodicity = 0.49;
    expect(2, QN_VERDICT_NOT_CONFIRMED, "in 1 of 3 cells");
    c->use_periodicity = NAN;
    expect(2, QN_VERDICT_CONFIRMED, "in 1 of 2 cells");
    expect(7, QN_VERDICT_UNKNOWN, "power sensor");
    a->power_is_estimated = true;
    expect(7, QN_VERDICT_UNKNOWN, "estimated");
    a->power_periodicity = 0.8;
    expect(7, QN_VERDICT_CONFIRMED, "Power repeats");
    a->power_periodicity = 0.2;
    expect(7, QN_VERDICT_NOT_CONFIRMED, "in 0 of 1 cells");
}

static void test_gpu_batch(void) {
    begin();
    qn_study_row *s = add_row("a", QN_DOMAIN_VISION, 4), *l = add_row("a", QN_DOMAIN_VISION, 64);
    s->cpu = 0.2;
    l->cpu = 0.23;
    expect(3, QN_VERDICT_UNKNOWN, "No GPU was seen");
    s->gpu = 0.8;
    expect(3, QN_VERDICT_UNKNOWN, "two batch sizes");
    l->gpu = 0.95;
    expect(3, QN_VERDICT_CONFIRMED, "+15.0 points, core utilisation by 3.0 points");
    l->cpu = 0.3;
    expect(3, QN_VERDICT_NOT_CONFIRMED, "10.0 points");
    l->cpu = 0.2;
    l->gpu = 0.81;
    expect(3, QN_VERDICT_NOT_CONFIRMED, "+1.0 points");
}

static void test_kinds(void) {
    begin();
    qn_study_row *r = add_row("a", QN_DOMAIN_VISION, 4);
    r->kind_use[0] = 0.9;
    r->kind_idle[0] = 0.05;
    expect(4, QN_VERDICT_UNKNOWN, "All 4 cores are of one kind");
    facts.cores.n_kinds = 0;
    expect(4, QN_VERDICT_UNKNOWN, "unknown");
    facts.cores.n_kinds = 2;
    facts.cores.names[0] = "big";
    facts.cores.names[1] = "little";
    r->kind_use[1] = 0.85;
    r->kind_idle[1] = 0.1;
    expect(4, QN_VERDICT_NOT_CONFIRMED, "big: 90 % busy, idle 5 % of the time; little: 85 %");
    r->kind_idle[1] = 0.65;
    expect(4, QN_VERDICT_CONFIRMED, "idle 65 %");
    r->kind_idle[1] = 0.1;
    r->kind_use[1] = 0.2;
    expect(4, QN_VERDICT_CONFIRMED, "20 % busy");
    r->kind_use[0] = r->kind_use[1] = NAN;
    expect(4, QN_VERDICT_UNKNOWN, "not measured");
}

static void test_domains(void) {
    begin();
    qn_study_row *v = add_row("resnet50", QN_DOMAIN_VISION, 4);
    qn_study_row *t = add_row("char-lstm", QN_DOMAIN_LSTM, 4);
    expect(5, QN_VERDICT_UNKNOWN, "No GPU");
    v->gpu = 0.95;
    expect(5, QN_VERDICT_UNKNOWN, "vision models and LSTMs");
    t->gpu = 0.25;
    expect(5, QN_VERDICT_CONFIRMED, "vision 95 %, LSTM 25 %");
    t->gpu = 0.8;
    expect(5, QN_VERDICT_NOT_CONFIRMED, "LSTM 80 %");
}

static void test_shares(void) {
    begin();
    qn_study_row *v = add_row("resnet50", QN_DOMAIN_VISION, 4);
    qn_study_row *t = add_row("char-lstm", QN_DOMAIN_LSTM, 4);
    expect(6, QN_VERDICT_UNKNOWN, "No GPU");
    v->gpu = t->gpu = 0.5;
    expect(6, QN_VERDICT_UNKNOWN, "power rails");
    for (int i = 0; i < 2; i++) {
        rows[i].part_j[QN_PART_CPU] = 1;
        rows[i].part_j[QN_PART_GPU] = i == 0 ? 4 : 1;
        rows[i].part_j[QN_PART_MEMORY] = 2;
    }
    expect(6, QN_VERDICT_CONFIRMED, "in 1 of 1 vision cells, memory in 1 of 1 LSTM cells");
    v->part_j[QN_PART_CPU] = 5;
    expect(6, QN_VERDICT_NOT_CONFIRMED, "in 0 of 1 vision cells");
}

static void test_energy(void) {
    begin();
    qn_study_row *s = add_row("densenet40", QN_DOMAIN_VISION, 4);
    qn_study_row *l = add_row("densenet40", QN_DOMAIN_VISION, 64);
    expect(8, QN_VERDICT_UNKNOWN, "No power sensor");
    s->energy_mj = 1000;
    expect(8, QN_VERDICT_UNKNOWN, "two batch sizes");
    l->energy_mj = 10500;
    expect(8, QN_VERDICT_CONFIRMED, "10.50 times (densenet40)");
    CHECK(!judge(8).is_estimated);
    l->power_is_estimated = true;
    CHECK(judge(8).is_estimated);
    l->energy_mj = 16000; /* in proportion */
    expect(8, QN_VERDICT_NOT_CONFIRMED, "in 0 of 1 models");
    l->energy_mj = 900;
    expect(8, QN_VERDICT_NOT_CONFIRMED, "0.90 times");
    l->energy_mj = 10500;
    add_row("squeezenet", QN_DOMAIN_VISION, 4)->energy_mj = 300;
    expect(8, QN_VERDICT_CONFIRMED,
           "At batch 4 densenet40 costs most of the vision models, squeezenet least");
}

static void set_memory(qn_study_row *r, double parameters, double gradients, double features) {
    r->memory[QN_KIND_PARAMETER] = parameters;
    r->memory[QN_KIND_GRADIENT] = gradients;
    r->memory[QN_KIND_FEATURE] = features * 0.75;
    r->memory[QN_KIND_WORKSPACE] = features * 0.25;
}

static void test_memory(void) {
    begin();
    qn_study_row *s = add_row("densenet40", QN_DOMAIN_VISION, 4);
    set_memory(s, 4e6, 4e6, 2.2e9);
    expect(9, QN_VERDICT_UNKNOWN, "two batch sizes");
    qn_study_row *l = add_row("densenet40", QN_DOMAIN_VISION, 64);
    set_memory(l, 4e6, 4e6, 5.9e9);
    expect(9, QN_VERDICT_CONFIRMED,
           "densenet40: 2.05 GiB of them at batch 4, 5.49 GiB at 64). All cells fit.");
    facts.n_left_out = 2;
    facts.memory_limit = 8e9;
    expect(9, QN_VERDICT_CONFIRMED, "2 cells did not fit in 7.45 GiB.");
    l->memory[QN_KIND_PARAMETER] = 5e6;
    expect(9, QN_VERDICT_NOT_CONFIRMED, "in 0 of 1 models");
    l->memory[QN_KIND_PARAMETER] = 4e6;
    l->memory[QN_KIND_GRADIENT] = 9e9;
    expect(9, QN_VERDICT_NOT_CONFIRMED, "in 0 of 1 models");
}

static void test_throughput(void) {
    begin();
    add_row("resnet50", QN_DOMAIN_VISION, 64)->throughput = 55; /* in no order */
    qn_study_row *s = add_row("resnet50", QN_DOMAIN_VISION, 4);
    s->throughput = 9;
    expect(10, QN_VERDICT_CONFIRMED, "6.11 times (resnet50)");
    expect(11, QN_VERDICT_UNKNOWN, "two models");
    s->throughput = 53;
    expect(10, QN_VERDICT_NOT_CONFIRMED, "in 0 of 1 models");
    s->throughput = 9;
    add_row("dqn", QN_DOMAIN_CONTROL, 4)->throughput = 889;
    add_row("dqn", QN_DOMAIN_CONTROL, 64)->throughput = 13618;
    expect(10, QN_VERDICT_CONFIRMED, "in 2 of 2 models");
    expect(11, QN_VERDICT_CONFIRMED, "from 6.11 times (resnet50) to 15.32 times (dqn)");
    s->throughput = 4;
    expect(11, QN_VERDICT_NOT_CONFIRMED, "13.75 times (resnet50)");
}

static void set_interval(qn_study_row *r, double low, double high) {
    r->step_ms = 100;
    r->step_ms_low = low;
    r->step_ms_high = high;
}

/* Step times that vary: a claim is judged where it holds at both ends of their intervals or at
 * neither, else it is uncertain. */
static void test_intervals(void) {
    begin();
    qn_study_row *s = add_row("resnet50", QN_DOMAIN_VISION, 4);
    qn_study_row *l = add_row("resnet50", QN_DOMAIN_VISION, 64);
    s->throughput = 10;
    l->throughput = 11;
    set_interval(s, 99, 101);
    set_interval(l, 99, 101);
    expect(10, QN_VERDICT_CONFIRMED, "1.10 times"); /* 1.078 at least */
    set_interval(l, 95, 106);
    expect(10, QN_VERDICT_UNCERTAIN, "1.10 times"); /* 1.027 to 1.17 */
    l->throughput = 10;
    set_interval(l, 99, 106);
    expect(10, QN_VERDICT_NOT_CONFIRMED, "1.00 times"); /* 1.02 at most */
    s->energy_mj = 100;
    l->energy_mj = 110;
    set_interval(l, 85, 106);
    expect(8, QN_VERDICT_UNCERTAIN, "1.10 times"); /* 0.93 to 1.18 */
    set_interval(l, 98, 102);
    expect(8, QN_VERDICT_CONFIRMED, "1.10 times");
    add_row("dqn", QN_DOMAIN_CONTROL, 4)->throughput = 100;
    qn_study_row *d = add_row("dqn", QN_DOMAIN_CONTROL, 64);
    d->throughput = 210;
    expect(11, QN_VERDICT_CONFIRMED, "2.10 times (dqn)");
    set_interval(d, 90, 110);
    expect(11, QN_VERDICT_UNCERTAIN, "2.10 times (dqn)");
    d->throughput = 150;
    expect(11, QN_VERDICT_NOT_CONFIRMED, "1.50 times (dqn)");
}

static void set_drip(int i, int64_t batch, double before, double after, int64_t right,
                     int64_t wrong) {
    drips[i] = (qn_drip){.model = "densenet40",
                         .data = "fashion-mnist",
                         .batch = batch,
                         .n_pretraining = 6400,
                         .n_test = 2000,
                         .n_days = QN_DRIP_DAYS + 1};
    drips[i].days[0].accuracy = before;
    drips[i].days[QN_DRIP_DAYS] = (qn_drip_day){after, 1, right, wrong};
    facts.n_drips = i + 1;
}

static void test_drip(void) {
    begin();
    expect(12, QN_VERDICT_UNKNOWN, "No drip training");
    set_drip(0, 4, 0.6065, 0.6132, 40, 27); /* 1.6 standard errors */
    expect(12, QN_VERDICT_NOT_CONFIRMED, "batch 4 60.65 to 61.32 %. Beyond chance: 0 up, 0 down");
    set_drip(0, 4, 0.6065, 0.6132, 25, 12); /* 2.1 */
    expect(12, QN_VERDICT_CONFIRMED, "densenet40 on fashion-mnist, 17 days: batch 4");
    set_drip(1, 16, 0.6065, 0.6065, 0, 0); /* nothing changed at all */
    expect(12, QN_VERDICT_CONFIRMED, "1 up, 0 down");
    set_drip(2, 64, 0.6065, 0.58, 10, 63);
    expect(12, QN_VERDICT_NOT_CONFIRMED, "1 up, 1 down");
}

/* Other programs at work: no verdict on time, use or power; bytes and accuracy stand. */
static void test_others(void) {
    begin();
    qn_study_row *s = add_row("resnet50", QN_DOMAIN_VISION, 4);
    qn_study_row *l = add_row("resnet50", QN_DOMAIN_VISION, 64);
    s->throughput = 9;
    l->throughput = 55;
    s->use_periodicity = 0.1;
    set_memory(s, 4e6, 4e6, 2e9);
    set_memory(l, 4e6, 4e6, 6e9);
    s->others = 0.049;
    expect(10, QN_VERDICT_CONFIRMED, "6.11 times");
    s->others = 0.05;
    expect(10, QN_VERDICT_UNCERTAIN, "Other programs used up to 5 % of the cores in 1 of 2 cells.");
    expect(2, QN_VERDICT_UNCERTAIN, "in 0 of 1 cells");
    expect(9, QN_VERDICT_CONFIRMED, "All cells fit.");
    expect(3, QN_VERDICT_UNKNOWN, "No GPU was seen.");
    CHECK(!strstr(judge(3).here, "Other programs"));
    set_drip(0, 4, 0.6065, 0.6132, 25, 12);
    expect(12, QN_VERDICT_CONFIRMED, "1 up");
}

/* The longest texts are cut, not overrun. */
static void test_long(void) {
    begin();
    facts.cores.n_kinds = QN_STUDY_KINDS;
    for (int i = 0; i < QN_STUDY_KINDS; i++)
        facts.cores.names[i] = "a kind of core with a very long name of its own";
    qn_study_row *r = add_row("a", QN_DOMAIN_VISION, 4);
    for (int i = 0; i < QN_STUDY_KINDS; i++)
        r->kind_use[i] = r->kind_idle[i] = 0.1 * i;
    const qn_finding f = judge(4);
    CHECK(f.verdict == QN_VERDICT_CONFIRMED);
    CHECK(strlen(f.here) == sizeof f.here - 1);
}

int main(void) {
    test_nothing();
    test_balance();
    test_rhythm();
    test_gpu_batch();
    test_kinds();
    test_domains();
    test_shares();
    test_energy();
    test_memory();
    test_throughput();
    test_intervals();
    test_drip();
    test_others();
    test_long();
    return checks_finish();
}
