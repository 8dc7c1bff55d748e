/* quern fix: moves pictures whose folder is probably wrong to the one that quern show names, after
 * a question, and back. */
#include "base/decimal.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/look/looked.h"
#include "cli/look/moves.h"
#include "cli/terminal.h"
#include "os/os.h"
#include "os/process/interrupt.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LINES = 20 };

static const option options[] = {
    {.name = "dry-run",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "print what would be moved, and move nothing"},
    {.name = "yes", .kind = OPTION_FLAG, .fallback = "no", .help = "move without asking"},
    {.name = "least",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .least = 0.5,
     .most = 1,
     .fallback = "0.7",
     .help = "how much of neighbours' votes and answers the other class needs"},
    {.name = "list",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_MOVES,
     .argument = "FILE",
     .otherwise = "moved.csv, or the next free name",
     .help = "CSV file with the moves, by which --undo takes them back"},
    {.name = "undo",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "take back the moves of a list"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "print one JSON object a line; with --yes or --dry-run"},
};

/* ---- what is to be moved ---- */

static qn_status add_move(const looked *l, const qn_sample_finding *s, moves *m) {
    qn_sample_file file;
    char root[PATH_MAX], from[PATH_MAX], to[PATH_MAX], class[24];
    if (!qn_source_file_of(l->source, s->split, s->index, &file) || !file.folder)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: the class of a sample is not the folder that it lies in: change it by "
                       "hand; quern show names the samples",
                       l->source->name);
    QN_TRY(qn_path_resolve(file.root, root, sizeof root));
    const int n_from = snprintf(from, sizeof from, "%s/%s", root, file.name);
    const int n_to = snprintf(to, sizeof to, "%s/%s%s", root, looked_class(l, s->suggest, class),
                              file.name + strlen(file.folder));
    if ((size_t)n_from >= sizeof from || (size_t)n_to >= sizeof to)
        return qn_fail(QN_ERROR_IO, "%s: the path is too long", file.name);
    return moves_add(m, from, to);
}

static qn_status add_moves(const arguments *a, const looked *l, moves *m) {
    const double least = qn_decimal_read(arguments_get(a, "least"), NULL);
    for (int64_t i = 0; i < l->f.n_suspects; i++) {
        const qn_sample_finding *s = &l->f.samples[l->f.suspects[i]];
        if ((double)s->suggestion >= least)
            QN_TRY(add_move(l, s, m));
    }
    return QN_OK;
}

/* ---- asking ---- */

static void print_moves(const moves *m) {
    for (size_t i = 0; i < m->n && i < MOST_LINES; i++)
        terminal_print(4, "  %s -> %s", terminal_name(m->list[i].from),
                       terminal_name(m->list[i].to));
    if (m->n > MOST_LINES)
        terminal_print(2, "  and %zu more", m->n - MOST_LINES);
}

/* Nothing but a yes is one. */
static bool ask(size_t n) {
    char line[64];
    printf("Move %zu picture%s? [y/N] ", n, n == 1 ? "" : "s");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return false;
    line[strcspn(line, "\r\n")] = 0;
    return strcmp(line, "y") == 0 || strcmp(line, "Y") == 0 || strcmp(line, "yes") == 0;
}

/* ---- moving ---- */

static void print_json(const moves *m) {
    for (size_t i = 0; i < m->n; i++) {
        json_begin();
        json_text("event", "move");
        json_text("from", m->list[i].from);
        json_text("to", m->list[i].to);
        json_flag("moved", m->list[i].is_done);
        json_end();
    }
}

/* A file that cannot be moved does not keep the others. */
static qn_status make_all(moves *m, size_t *n_done) {
    qn_interrupt_watch(EXIT_FAILED);
    for (size_t i = 0; i < m->n && !qn_was_interrupted(); i++) {
        if (moves_make(m, i) == QN_OK)
            ++*n_done;
        else
            terminal_note("%s", qn_error_message());
    }
    return *n_done == m->n ? QN_OK
                           : qn_fail(QN_ERROR_IO, "%zu of %zu pictures stay where they are",
                                     m->n - *n_done, m->n);
}

static qn_status move_all(const arguments *a, moves *m) {
    const bool is_json = arguments_flag(a, "json");
    const char *list = NULL;
    size_t n_done = 0;
    if (!arguments_has(a, "undo"))
        QN_TRY(moves_write(m, arguments_get(a, "list"), &list));
    const qn_status status = make_all(m, &n_done);
    if (is_json)
        print_json(m);
    else if (list)
        terminal_print(2, "moved %zu; quern fix --undo %s takes it back", n_done, list);
    else
        terminal_print(2, "moved %zu back", n_done);
    return status;
}

static qn_status move_or_ask(const arguments *a, moves *m) {
    const bool is_json = arguments_flag(a, "json"), is_dry = arguments_flag(a, "dry-run");
    if (m->n == 0) {
        if (!is_json)
            terminal_print(2, "nothing to move");
        return QN_OK;
    }
    if (!is_json)
        print_moves(m);
    if (is_dry) {
        if (is_json)
            print_json(m);
        return QN_OK;
    }
    if (arguments_flag(a, "yes") || ask(m->n))
        return move_all(a, m);
    terminal_print(2, "nothing was moved");
    return QN_OK;
}

static qn_status fix(const arguments *a, moves *m) {
    looked l;
    qn_status status = looked_open(a, &l);
    if (status == QN_OK)
        status = add_moves(a, &l, m);
    if (status == QN_OK)
        status = move_or_ask(a, m);
    looked_close(&l);
    return status;
}

static qn_status check(const arguments *a) {
    const bool is_undone = arguments_has(a, "undo");
    if (is_undone == (a->n_words > 0))
        return qn_fail(QN_ERROR_ARGUMENT, is_undone
                                              ? "--undo takes back a list's moves, whatever the "
                                                "weights; leave the checkpoint out"
                                              : "quern fix needs CHECKPOINT, or --undo FILE");
    if (is_undone &&
        (arguments_has(a, "list") || arguments_has(a, "least") || arguments_has(a, "data")))
        return qn_fail(QN_ERROR_ARGUMENT, "--undo needs no --list, --least or --data");
    if (arguments_flag(a, "json") && !arguments_flag(a, "yes") && !arguments_flag(a, "dry-run"))
        return qn_fail(QN_ERROR_ARGUMENT, "--json cannot ask; add --yes or --dry-run");
    return QN_OK;
}

static int run(const arguments *a) {
    moves m;
    moves_init(&m);
    qn_status status = check(a);
    if (status == QN_OK && arguments_has(a, "undo")) {
        status = moves_read(&m, arguments_get(a, "undo"));
        if (status == QN_OK)
            status = move_or_ask(a, &m);
    } else if (status == QN_OK) {
        status = fix(a, &m);
    }
    moves_deinit(&m);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_fix = {
    .name = "fix",
    .words = "[CHECKPOINT]",
    .most_words = 1,
    .summary = "Move pictures to the folder that they look like",
    .description =
        "Pictures in class folders whose label is probably wrong (quern show) go to the folder of\n"
        "the class that is suggested, after a question. No file is replaced, and a list takes\n"
        "them back.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&looked_options, &session_options, &table_form_options, &reading_options},
    .run = run,
    .makes_files = true,
};
