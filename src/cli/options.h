/* The options of a command, as data: parsing, help, the manual page, defaults and what a checkpoint
 * stores all follow from one table. Values are stored as text in a canonical form ("0.1" for 1e-1),
 * so that they can be compared and stored. */
#ifndef QN_CLI_OPTIONS_H
#define QN_CLI_OPTIONS_H

#include "base/memory.h"
#include "format/own/own_file.h"
#include "quern/graph.h"

typedef enum option_kind {
    OPTION_FLAG,   /* --name and --no-name: "yes", "no" */
    OPTION_TEXT,   /* as it is */
    OPTION_DATA,   /* a data set: a path alone is looked at, ~ is the user's folder */
    OPTION_INPUT,  /* a file that is read, or a text that may name one */
    OPTION_TARGET, /* a file that can be written: it is tried */
    OPTION_OUTPUT, /* the same, or a stream: "-" is standard output */
    OPTION_COUNT,  /* whole number within least and most */
    OPTION_NUMBER, /* within least and most */
    OPTION_CHOICE, /* one of argument's, "a|b|c" */
    OPTION_LIST,   /* some of argument's, "a,b", in that order; or none */
    OPTION_SHAPE,  /* "28x28x1" */
    OPTION_SIZE,   /* "300M": as a count of bytes */
    OPTION_PARTS,  /* texts with commas between; given again, it adds to them */
    OPTION_NAMES, /* a file's lines, or its JSON list, of names: a line break and a name for each */
    OPTION_HEAD,  /* "N", "NAME", "NAME=N": as N or "data", and ",NAME" */
    OPTION_NUMERICS, /* "f32", or a description of numerics, all in one line */
    OPTION_RULES,    /* "built-in" or a file's table of rules, all in one line */
    OPTION_LORA,     /* "rank=N,layers=PATTERNS,alpha=X" in any order: layers last */
} option_kind;

/* A row of a command's table. */
typedef struct option {
    const char *name; /* without dashes */
    option_kind kind;
    const char *argument;  /* "N"; null for a flag */
    double least, most;    /* of counts and numbers */
    const char *fallback;  /* default; null: none, or found otherwise */
    const char *otherwise; /* that default in words */
    const char *help;
    const char *of; /* the tasks it is of, "language translation"; null: all */
    bool is_kept;   /* a checkpoint keeps it, and a resume holds to it */
    bool is_free;   /* kept, but a resume may change it: how long to train */
    /* Of a file that is written: its kinds (qn_own_kind), the option whose file it may replace, and
     * the ending of a second file beside it; null: none. */
    unsigned makes;
    const char *of_run; /* of an OPTION_INPUT: what of a run's folder it reads, "best" or "last" */
    const char *replaces, *beside;
} option;

/* Rows that several commands have. */
typedef struct option_list {
    const option *rows; /* (n) */
    int n;
} option_list;

/* Of tables: what columns mean, and how the file is written (table/table_options.c). */
extern const option_list table_options, table_form_options;

/* What a session of trained weights may take (session.c). */
extern const option_list session_options;

/* How an ONNX file is read (model.c). */
extern const option_list onnx_options;

struct arguments;

/* A command: one file, and one row in commands.c. Its table of options is its own rows, then those
 * of the shared lists, then --force where it writes files. */
typedef struct command {
    const char *name;
    const char *words;           /* "MODEL IMAGE..." */
    int least_words, most_words; /* of them; most < 0: any */
    const char *summary;         /* a line */
    const char *description;     /* further text of its help; may be null */
    const option *options;       /* (n_options) its own */
    int n_options;
    const option_list *shared[10];                 /* null at the end */
    int (*run)(const struct arguments *arguments); /* exit status */
    bool makes_files; /* which matter more than its output: it goes on when nobody reads that */
} command;

enum { MAX_OPTIONS = 128 };

/* A parsed command line; values by row of the command's table, null where not given. */
typedef struct arguments {
    const command *command;
    const char *values[MAX_OPTIONS];
    const char *given[MAX_OPTIONS]; /* the same, as it was given */
    const char **words;             /* (n_words) */
    int n_words;
    bool wants_help;
    qn_arena texts;
} arguments;

/* Parses what follows the command's name. A failure is wrong usage. */
qn_status arguments_parse(const command *command, int n, char **texts, arguments *arguments);
void arguments_deinit(arguments *arguments);

/* Whether its value names a file that is written. */
bool option_is_output(const option *option);

/* Whether the command writes files that options name. Then its table ends with --force. */
bool option_has_outputs(const command *command);

/* Rows of a command's table, and one of them; null beyond the last. */
int option_count(const command *command);
const option *option_at(const command *command, int row);

/* Whether the option is of a task. */
bool option_is_of(const option *option, const char *task);

/* Row of an option's name, or -1. */
int option_find(const command *command, const char *name);

/* Value of an option as given, or its fallback, or null. */
const char *arguments_get(const arguments *arguments, const char *name);
bool arguments_has(const arguments *arguments, const char *name);
bool arguments_flag(const arguments *arguments, const char *name);
int64_t arguments_count(const arguments *arguments, const char *name);

/* The one form of a value ("0.1"), in texts; fails where the option does not accept it. */
qn_status option_canonical(const option *option, const char *value, qn_arena *texts,
                           const char **canonical);

#endif
