/* quern help: the overview, the help of a command, and the manual page, all generated from the
 * tables. */
#include "base/status.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/settings.h"
#include "quern/task.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    {.name = "man",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "print the manual page quern(1) as roff"},
    {.name = "completion",
     .kind = OPTION_CHOICE,
     .argument = "bash|zsh|fish",
     .otherwise = "none",
     .help = "print the completion script of a shell"},
    {.name = "settings",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "print settings of train, or options of COMMAND, as JSON lines"},
};

static const char *const data_kinds[][2] = {
    {"fashion-mnist", "the Debian package dataset-fashion-mnist"},
    {"idx:DIR", "the four files of MNIST's format, gzipped or not"},
    {"cifar10:DIR", "CIFAR-10 in its binary format"},
    {"cifar100:DIR", "CIFAR-100 in its binary format"},
    {"images:DIR[,LABELS.csv]", "pictures: train/CLASS/*, test/CLASS/*; CLASS/*; or a table"},
    {"npy:X.npy,Y.npy[,AXES]", "arrays of samples, and of labels or float targets"},
    {"npy:FILE.npz", "the arrays x and y of one file"},
    {"npy:DIR", "recordings: CLASS/*.npy, (T, C) each"},
    {"csv:FILE[,label=NAME]", "a table of numbers, texts and dates; the last column is predicted"},
    {"sounds:DIR", "WAV: CLASS/*.wav, or *.wav; the spectrum of each file's loudest second"},
    {"texts:FILE", "CSV of a text and its class, or of texts alone: their first 32 words"},
    {"labelled:FILE", "what quern label labelled, weighted by confidence"},
    {"npz:TRAIN[,TEST]", "arrays by the names of an ONNX file's inputs, and targets"},
    {"synthetic", "seeded and learnable, in the model's shape"},
};

enum { N_DATA_KINDS = sizeof data_kinds / sizeof data_kinds[0] };

#define LENET5 "lenet5.safetensors"

static const char *const examples[] = {
    "quern train lenet5 --data fashion-mnist --save " LENET5,
    "quern train lenet5 --data fashion-mnist --epochs 6 --resume " LENET5 " --save " LENET5,
    "quern evaluate lenet5 --weights " LENET5 " --data fashion-mnist",
    "quern predict lenet5 --weights " LENET5 " shirt.png",
};

enum { N_EXAMPLES = sizeof examples / sizeof examples[0] };

static bool takes_data(const command *c) {
    return option_find(c, "data") >= 0 || (c->words && strncmp(c->words, "DATA", 4) == 0);
}

/* "--epochs N"; a flag in the form that changes something. */
static void format_option(const option *o, char *text, size_t bytes) {
    const bool is_on = o->kind == OPTION_FLAG && o->fallback && strcmp(o->fallback, "yes") == 0;
    snprintf(text, bytes, "--%s%s%s%s", is_on ? "no-" : "", o->name, o->argument ? " " : "",
             o->argument ? o->argument : "");
}

/* The default in words, or null. */
static const char *describe_default(const option *o, const qn_model *model, char *text,
                                    size_t bytes) {
    char value[40];
    if (o->kind == OPTION_FLAG && !(model && o->otherwise))
        return NULL;
    if (model && recipe_value(model, o->name, value, sizeof value)) {
        snprintf(text, bytes, "%s, %s's recipe", value, model->name);
        return text;
    }
    return o->otherwise ? o->otherwise : o->fallback;
}

static void print_option(const option *o, const qn_model *model) {
    char name[80], words[80];
    if (model && !option_is_of(o, qn_task_of(model)))
        return;
    format_option(o, name, sizeof name);
    const char *fallback = describe_default(o, model, words, sizeof words);
    if (strlen(name) > 24)
        printf("  %s\n  %-24s  %s", name, "", o->help);
    else
        printf("  %-24s  %s", name, o->help);
    if (fallback)
        printf("\n  %-24s  (default: %s)", "", fallback);
    if (o->of && !model)
        printf("\n  %-24s  (task: %s)", "", o->of);
    putchar('\n');
}

/* ---- long tables, in groups ---- */

enum { MANY_OPTIONS = 24 };

/* Names with blanks around; what is in none comes at the end. */
static const char *const groups[][2] = {
    {"Options that most runs need", " data epochs batch lr augment input head load save resume "
                                    "validation memory "},
    {"Length, tests and checkpoints",
     " steps seed test holdout samples save-best early-stop "
     "checkpoint-every no-save override force json picture picture-every "},
    {"Optimiser",
     " optimizer momentum nesterov weight-decay proximal beta1 schedule warmup schedule-steps "
     "clip-norm accumulate "},
    {"Fine-tuning", " start freeze train-only requires-grad update lr-for lora personalise "
                    "personal-words personal-rate "
                    "save-personal "},
    {"Data and loss",
     " classes classes-from class-weights label-smoothing loss shape set follow-links resize "
     "shuffle strict length "
     "wordpiece vocabulary hidden min-count "},
    {"Tables", " target task ignore categories header separator decimal dates "},
    {"Recordings and groups", " group window stride window-label time "},
    {"Memory and speed",
     " threads cores device prefer cpu-watts device-watts idle-watts power foreground "
     "micro-batch recompute swap plan tune measure budget-file "
     "memory-pressure pressure-file pressure-calm rules numerics device "},
    {"Control", " net frames replay fill explore epsilon update-every target-every return-steps "
                "discount episodes test-epsilon timeout "},
};

enum { N_GROUPS = sizeof groups / sizeof groups[0] };

static int group_of(const option *o) {
    char name[80];
    snprintf(name, sizeof name, " %s ", o->name);
    for (int g = 0; g < N_GROUPS; g++) {
        if (strstr(groups[g][1], name))
            return g;
    }
    return N_GROUPS;
}

/* Whether a table is long, and of what the groups know. */
static bool has_groups(const command *c) {
    const option *o;
    int n_known = 0;
    for (int i = 0; (o = option_at(c, i)); i++)
        n_known += group_of(o) < N_GROUPS;
    return option_count(c) > MANY_OPTIONS && 2 * n_known > option_count(c);
}

static void print_groups(const command *c, const qn_model *model) {
    const option *o;
    for (int g = 0; g <= N_GROUPS; g++) {
        bool is_first = true;
        for (int i = 0; (o = option_at(c, i)); i++) {
            if (group_of(o) != g || (model && !option_is_of(o, qn_task_of(model))))
                continue;
            if (is_first)
                printf("\n%s:\n", g < N_GROUPS ? groups[g][0] : "Further options");
            is_first = false;
            print_option(o, model);
        }
    }
}

static void print_data_kinds(void) {
    puts("\nDATA is one of:");
    for (int i = 0; i < N_DATA_KINDS; i++)
        printf("  %-24s  %s\n", data_kinds[i][0], data_kinds[i][1]);
}

void help_print_command(const command *c, const char *model_name) {
    const qn_model *model = NULL;
    if (model_name && model_find(model_name, NULL, &model) != QN_OK)
        model = NULL;
    printf("usage: quern %s%s%s%s\n\n%s.\n", c->name, c->words ? " " : "", c->words ? c->words : "",
           option_count(c) ? " [OPTION...]" : "", c->summary);
    if (c->description)
        printf("\n%s\n", c->description);
    if (takes_data(c))
        print_data_kinds();
    if (has_groups(c))
        print_groups(c, model);
    else if (option_count(c))
        puts("\nOptions:");
    for (int i = 0; option_at(c, i) && !has_groups(c); i++)
        print_option(option_at(c, i), model);
}

static void print_overview(void) {
    puts("quern trains neural networks where the data is.\n\nusage: quern COMMAND [OPTION...]\n");
    for (int i = 0; command_at(i); i++)
        printf("  %-10s %s\n", command_at(i)->name, command_at(i)->summary);
    puts("\nquern COMMAND --help describes a command's options. Examples:\n");
    for (int i = 0; i < N_EXAMPLES; i++)
        printf("  %s\n", examples[i]);
    puts("\nExit status: 0 done, 1 failed while running, 2 wrong usage, 130 Ctrl-C.");
}

/* ---- manual page ---- */

/* Text as roff: a hyphen that is typed must not become a dash, and no line may begin a request. */
static void roff(const char *text) {
    for (bool is_start = true; *text; text++) {
        if (is_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        is_start = *text == '\n';
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
    }
}

static void roff_item(const char *term, const char *text, const char *after, const char *end) {
    fputs(".TP\n.B ", stdout);
    roff(term);
    putchar('\n');
    roff(text);
    if (after) {
        fputs(" (default: ", stdout);
        roff(after);
        putchar(')');
    }
    fputs(end, stdout);
}

static void man_command(const command *c) {
    char text[80];
    printf(".SS quern %s%s%s\n", c->name, c->words ? " " : "", c->words ? c->words : "");
    roff(c->summary);
    puts(".");
    if (c->description) {
        puts(".PP");
        roff(c->description);
        putchar('\n');
    }
    const option *o;
    for (int i = 0; (o = option_at(c, i)); i++) {
        format_option(o, text, sizeof text);
        roff_item(text, o->help, describe_default(o, NULL, NULL, 0), ".\n");
    }
}

static void print_man(void) {
    puts(".TH QUERN 1\n.SH NAME\nquern \\- train neural networks where the data is\n"
         ".SH SYNOPSIS\n.B quern\n.I COMMAND\n.RI [ OPTION ...]\n.SH DESCRIPTION\n"
         "quern trains, evaluates and applies neural networks on this machine.\n.SH COMMANDS");
    for (int i = 0; command_at(i); i++)
        man_command(command_at(i));
    puts(".SH DATA");
    for (int i = 0; i < N_DATA_KINDS; i++)
        roff_item(data_kinds[i][0], data_kinds[i][1], NULL, ".\n");
    puts(".SH EXIT STATUS\n0 done, 1 failed while running, 2 wrong usage, 130 stopped by "
         "Ctrl-C.\n.SH ENVIRONMENT\n"
         ".TP\n.B QUERN_ISA\nCaps the instruction set: ref, neon, avx2 or avx512.\n"
         ".TP\n.B QUERN_RUNS\nWhere quern train keeps runs without --save (default: runs); none: "
         "nowhere.\n"
         ".TP\n.B XDG_CACHE_HOME\nWhere unpacked data sets are kept (default: ~/.cache).\n"
         ".SH EXAMPLES");
    for (int i = 0; i < N_EXAMPLES; i++) {
        puts(".PP\n.EX");
        roff(examples[i]);
        puts("\n.EE");
    }
}

/* ---- settings, for programs ---- */

static void print_setting(const option *o) {
    static const char *const kinds[] = {
        [OPTION_FLAG] = "flag",     [OPTION_TEXT] = "text",         [OPTION_DATA] = "data",
        [OPTION_TARGET] = "target", [OPTION_OUTPUT] = "output",     [OPTION_COUNT] = "count",
        [OPTION_NUMBER] = "number", [OPTION_CHOICE] = "choice",     [OPTION_LIST] = "list",
        [OPTION_SHAPE] = "shape",   [OPTION_SIZE] = "size",         [OPTION_PARTS] = "parts",
        [OPTION_NAMES] = "names",   [OPTION_HEAD] = "head",         [OPTION_RULES] = "rules",
        [OPTION_LORA] = "lora",     [OPTION_NUMERICS] = "numerics", [OPTION_INPUT] = "input",
    };
    const char *usual = describe_default(o, NULL, NULL, 0);
    json_begin();
    json_text("name", o->name);
    json_text("kind", kinds[o->kind]);
    if (o->argument)
        json_text("argument", o->argument);
    if (o->kind == OPTION_COUNT || o->kind == OPTION_NUMBER) {
        json_number("least", o->least);
        json_number("most", o->most);
    }
    if (usual)
        json_text("default", usual);
    if (o->of)
        json_text("of", o->of);
    if (option_is_output(o))
        json_text("makes", qn_own_kind_words(o->makes));
    if (o->replaces)
        json_text("replaces", o->replaces);
    json_text("help", o->help);
    json_end();
}

/* Of train without a name: what a checkpoint keeps. */
static qn_status print_settings(const char *name) {
    const command *c = command_find(name ? name : "train");
    if (!c)
        return QN_ERROR_ARGUMENT;
    const option *o;
    for (int i = 0; (o = option_at(c, i)); i++) {
        if (name || o->is_kept)
            print_setting(o);
    }
    return QN_OK;
}

static int run(const arguments *a) {
    if (arguments_flag(a, "settings")) {
        const qn_status status = print_settings(a->n_words > 0 ? a->words[0] : NULL);
        return status == QN_OK ? EXIT_DONE : report_failure(status);
    }
    if (arguments_has(a, "completion")) {
        completion_print(arguments_get(a, "completion"));
        return EXIT_DONE;
    }
    if (arguments_flag(a, "man")) {
        print_man();
        return EXIT_DONE;
    }
    if (a->n_words == 0) {
        print_overview();
        return EXIT_DONE;
    }
    const command *c = command_find(a->words[0]);
    if (!c)
        return report_failure(QN_ERROR_ARGUMENT);
    help_print_command(c, NULL);
    return EXIT_DONE;
}

const command command_help = {
    .name = "help",
    .words = "[COMMAND]",
    .most_words = 1,
    .summary = "Describe quern or one of its commands",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
