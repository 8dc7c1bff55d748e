/* Completion for bash, zsh and fish, printed from the tables of commands and options. The installed
 * files are in share/completions; a test compares them with this output. */
#include "cli/completion.h"

#include "quern/model.h"

#include <stdio.h>
#include <string.h>

static bool takes_model(const command *c) {
    return c->words && strstr(c->words, "MODEL") != NULL;
}

/* "--no-test" of a flag that is on, "--data" else. */
static void print_name(const option *o) {
    const bool is_on = o->kind == OPTION_FLAG && o->fallback && strcmp(o->fallback, "yes") == 0;
    printf("%s%s", is_on ? "no-" : "", o->name);
}

/* The choices of an option, with blanks between; false: it has none. */
static bool print_choices(const option *o) {
    if (o->kind != OPTION_CHOICE && o->kind != OPTION_LIST)
        return false;
    for (const char *c = o->argument; *c; c++)
        putchar(*c == '|' || *c == ',' ? ' ' : *c);
    return true;
}

static void print_models(void) {
    const qn_model *model;
    for (int i = 0; (model = qn_model_at(i)); i++)
        printf("%s%s", i ? " " : "", model->name);
}

static void print_commands(void) {
    for (int i = 0; command_at(i); i++)
        printf("%s%s", i ? " " : "", command_at(i)->name);
}

/* ---- bash ---- */

static void bash_command(const command *c) {
    const option *o;
    printf("    %s) options='", c->name);
    for (int i = 0; (o = option_at(c, i)); i++) {
        fputs("--", stdout);
        print_name(o);
        putchar(' ');
    }
    puts("--help' ;;");
}

static void bash_choices(const command *c) {
    const option *o;
    for (int i = 0; (o = option_at(c, i)); i++) {
        if (o->kind != OPTION_CHOICE && o->kind != OPTION_LIST)
            continue;
        printf("    '%s --%s') words='", c->name, o->name);
        print_choices(o);
        puts("' ;;");
    }
}

static void print_bash(void) {
    puts("# Completion of quern for bash, made by quern help --completion bash.\n"
         "_quern() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local command=${COMP_WORDS[1]} options='' words=''\n"
         "  case \"$command\" in");
    for (int i = 0; command_at(i); i++)
        bash_command(command_at(i));
    puts("  esac\n  case \"$command $before\" in");
    for (int i = 0; command_at(i); i++)
        bash_choices(command_at(i));
    for (int i = 0; command_at(i); i++) {
        if (!takes_model(command_at(i)))
            continue;
        printf("    '%s %s') words='", command_at(i)->name, command_at(i)->name);
        print_models();
        puts("' ;;");
    }
    fputs("  esac\n  if [ \"$COMP_CWORD\" -eq 1 ]; then words='", stdout);
    print_commands();
    puts("'; fi\n"
         "  case \"$current\" in -*) words=$options ;; esac\n"
         "  # Without words of its own, a place takes files.\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "}\n"
         "complete -o default -F _quern quern");
}

/* ---- zsh and fish ---- */

/* In single quotes; brackets and colons with a backslash where they would mean something. */
static void print_quoted(const char *text, const char *special) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", strchr(special, *text) ? "\\" : "", *text);
    }
}

static void zsh_option(const option *o) {
    fputs("        '--", stdout);
    print_name(o);
    putchar('[');
    print_quoted(o->help, "[]:\\");
    putchar(']');
    if (o->kind != OPTION_FLAG) {
        putchar(':');
        print_quoted(o->argument, "[]:\\");
        putchar(':');
        if (o->kind == OPTION_CHOICE || o->kind == OPTION_LIST) {
            putchar('(');
            print_choices(o);
            putchar(')');
        } else {
            fputs("_files", stdout);
        }
    }
    puts("' \\");
}

static void zsh_command(const command *c) {
    const option *o;
    printf("      %s) _arguments \\\n", c->name);
    for (int i = 0; (o = option_at(c, i)); i++)
        zsh_option(o);
    if (takes_model(c)) {
        fputs("        '2:model:(", stdout);
        print_models();
        puts(")' \\");
    }
    puts("        '--help[describe the options]' '*:file:_files' ;;");
}

static void print_zsh(void) {
    puts("#compdef quern\n"
         "# Completion of quern for zsh, made by quern help --completion zsh.\n"
         "_quern() {\n"
         "  local -a commands=(");
    for (int i = 0; command_at(i); i++) {
        printf("    '%s:", command_at(i)->name);
        print_quoted(command_at(i)->summary, "");
        puts("'");
    }
    puts("  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "  else\n"
         "    case $words[2] in");
    for (int i = 0; command_at(i); i++)
        zsh_command(command_at(i));
    puts("    esac\n  fi\n}\n_quern \"$@\"");
}

static void fish_option(const command *c, const option *o) {
    printf("complete -c quern -n '__fish_seen_subcommand_from %s' -l ", c->name);
    print_name(o);
    if (o->kind == OPTION_CHOICE || o->kind == OPTION_LIST) {
        fputs(" -x -a '", stdout);
        print_choices(o);
        putchar('\'');
    } else if (o->kind != OPTION_FLAG) {
        fputs(" -r", stdout);
    }
    fputs(" -d '", stdout);
    print_quoted(o->help, "\\");
    puts("'");
}

static void print_fish(void) {
    const option *o;
    puts("# Completion of quern for fish, made by quern help --completion fish.");
    for (int i = 0; command_at(i); i++) {
        const command *c = command_at(i);
        printf("complete -c quern -f -n __fish_use_subcommand -a %s -d '", c->name);
        print_quoted(c->summary, "\\");
        puts("'");
        if (takes_model(c)) {
            printf("complete -c quern -n '__fish_seen_subcommand_from %s' -a '", c->name);
            print_models();
            puts("'");
        }
        for (int k = 0; (o = option_at(c, k)); k++)
            fish_option(c, o);
    }
}

void completion_print(const char *shell) {
    if (strcmp(shell, "bash") == 0)
        print_bash();
    else if (strcmp(shell, "zsh") == 0)
        print_zsh();
    else
        print_fish();
}
