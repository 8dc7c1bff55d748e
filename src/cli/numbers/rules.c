/* quern rules: the table by which convolutions choose their algorithm, as a file that --rules
 * reads.
 */
#include "cli/numbers/rules.h"

#include "base/rng.h"
#include "base/status.h"
#include "cli/commands.h"
#include "kernels/rules.h"
#include "os/heap.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char built_in[] = "built-in", header[] = "quern rules 1";

enum { ROW_BYTES = 256 };

/* One row, words `gap` apart at least. */
static void format_row(const qn_rule *rule, bool is_wide, char text[ROW_BYTES]) {
    const char *set = "*", *pass = "*";
    for (int isa = QN_ISA_REF; isa <= QN_ISA_AVX512; isa++)
        set = rule->sets == 1 << isa ? qn_isa_name((qn_isa)isa) : set;
    for (int i = 0; i < 3; i++)
        pass = rule->passes == 1 << i ? qn_pass_names[i] : pass;
    int n = snprintf(text, ROW_BYTES, is_wide ? "%-8s  %-15s  %-9s" : "%s %s %s", set, pass,
                     qn_algorithm_names[rule->algorithm]);
    for (int i = 0; i < rule->n; i++) {
        const qn_condition *c = &rule->conditions[i];
        n += snprintf(text + n, (size_t)(ROW_BYTES - n), " %s%s=%d", qn_feature_names[c->feature],
                      c->is_most ? "<" : ">", c->value);
    }
}

static const char *one_line(const qn_rules *rules, qn_arena *texts) {
    const char *text = header;
    for (int i = 0; text && i < rules->n; i++) {
        char row[ROW_BYTES];
        format_row(&rules->rules[i], false, row);
        text = qn_arena_format(texts, "%s;%s", text, row);
    }
    return text;
}

static qn_status read_file(const char *path, qn_rule *rows, qn_rules *rules) {
    char *text;
    size_t bytes;
    QN_TRY(qn_file_read_whole(qn_allocator_default(), path, &text, &bytes));
    const qn_status status = qn_rules_parse(text, bytes, rows, rules);
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", path);
}

qn_status rules_canonical(const char *value, qn_arena *texts, const char **canonical) {
    qn_rule rows[QN_MAX_RULES];
    qn_rules rules;
    if (strcmp(value, built_in) == 0) {
        *canonical = built_in;
        return QN_OK;
    }
    if (strncmp(value, header, sizeof header - 1) == 0)
        QN_TRY(qn_rules_parse(value, strlen(value), rows, &rules));
    else
        QN_TRY(read_file(value, rows, &rules));
    *canonical = one_line(&rules, texts);
    return *canonical ? QN_OK : QN_ERROR_MEMORY;
}

const char *rules_name(const char *canonical, char text[RULES_NAME]) {
    if (strcmp(canonical, built_in) == 0)
        return built_in;
    snprintf(text, RULES_NAME, "%016" PRIx64, qn_hash_text(canonical));
    return text;
}

/* ---- the command ---- */

static qn_status print(const qn_rules *rules) {
    char name[RULES_NAME], row[ROW_BYTES];
    qn_arena texts;
    qn_arena_init(&texts, qn_allocator_default());
    const char *line = one_line(rules, &texts);
    if (line) {
        printf("%s\n# hash %s\n# set     pass             algorithm  conditions\n", header,
               rules_name(line, name));
        for (int i = 0; i < rules->n; i++) {
            format_row(&rules->rules[i], true, row);
            puts(row);
        }
    }
    qn_arena_deinit(&texts);
    return line ? QN_OK : QN_ERROR_MEMORY;
}

static int run(const arguments *a) {
    qn_rule rows[QN_MAX_RULES];
    qn_rules rules = qn_rules_built_in;
    qn_status status = a->n_words > 0 ? read_file(a->words[0], rows, &rules) : QN_OK;
    if (status == QN_OK)
        status = print(&rules);
    return status == QN_OK ? EXIT_DONE : report_failed_run();
}

const command command_rules = {
    .name = "rules",
    .words = "[FILE]",
    .most_words = 1,
    .summary = "Print the rules by which convolutions choose their algorithm",
    .description =
        "Without FILE, the built-in rules; otherwise those of FILE, after checking them. A row\n"
        "has an instruction set, a pass, an algorithm and conditions on the shape; the first row\n"
        "that matches a convolution applies. The output can be edited and used with --rules of\n"
        "train, plan, profile and evaluate.",
    .run = run,
};
