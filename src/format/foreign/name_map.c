/* See name_map.h. */
#include "format/foreign/name_map.h"

#include "base/status.h"
#include "format/csv.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RULES = 100000, MOST_DIGITS = 9 };

/* What a star of a pattern stood for. */
typedef struct span {
    const char *begin;
    size_t length;
} span;

/* ---- matching ---- */

/* Where a match that failed goes on: the last star takes a character more. No star before it need
 * take more, since the least that it can take leaves the most to those after it; but a dot ends a
 * single star, and then the last ** before it has to. */
typedef struct retry {
    const char *pattern, *name; /* null: none */
    int n;
} retry;

static bool is_double(const char *pattern) {
    return pattern[0] == '*' && pattern[1] == '*';
}

/* Begins a star at *name with its first character; false: there is none that it could take. */
static bool begin_star(const char **pattern, const char **name, span *spans, int *n, retry *single,
                       retry *any) {
    const bool takes_dots = is_double(*pattern);
    if (**name == 0 || (!takes_dots && **name == '.'))
        return false;
    *pattern += 1 + takes_dots;
    spans[*n] = (span){*name, 1};
    ++*n;
    ++*name;
    *(takes_dots ? any : single) = (retry){*pattern, *name, *n};
    if (takes_dots)
        single->pattern = NULL;
    return true;
}

/* Lets the last star that can take a character more. */
static bool go_back(const char **pattern, const char **name, span *spans, int *n, retry *single,
                    retry *any) {
    if (single->pattern && (*single->name == 0 || *single->name == '.'))
        single->pattern = NULL;
    retry *r = single->pattern ? single : any;
    if (!r->pattern || *r->name == 0)
        return false;
    r->name++;
    *n = r->n;
    spans[*n - 1].length = (size_t)(r->name - spans[*n - 1].begin);
    *pattern = r->pattern;
    *name = r->name;
    return true;
}

/* Whether a name has a pattern's form; spans get what its stars stand for. */
static bool match(const char *pattern, const char *name, span spans[QN_MAP_CAPTURES]) {
    retry single = {NULL, NULL, 0}, any = {NULL, NULL, 0};
    int n = 0;
    while (*pattern || *name) {
        if (*pattern == '*' && begin_star(&pattern, &name, spans, &n, &single, &any))
            continue;
        if (*pattern && *pattern != '*' && *pattern == *name) {
            pattern++;
            name++;
            continue;
        }
        if (!go_back(&pattern, &name, spans, &n, &single, &any))
            return false;
    }
    return true;
}

/* ---- making names ---- */

/* A text that is filled up to its size; false: it would be longer. */
static bool put(char to[QN_MAP_NAME], size_t *used, const char *text, size_t length) {
    if (length >= QN_MAP_NAME - *used)
        return false;
    memcpy(to + *used, text, length);
    *used += length;
    to[*used] = 0;
    return true;
}

/* A reference "{2+1}": its star from 0, what is added, and what follows it; false: it is none. */
static bool parse_reference(const char *text, int *star, int *more, const char **end) {
    if (text[0] != '{' || text[1] < '1' || text[1] > '9')
        return false;
    *star = text[1] - '1';
    *more = 0;
    text += 2;
    if ((text[0] == '+' || text[0] == '-') && text[1] >= '0' && text[1] <= '9') {
        *more = (text[0] == '+' ? 1 : -1) * (text[1] - '0');
        text += 2;
    }
    *end = text + 1;
    return *text == '}';
}

/* The number that a span is; false: it is none. */
static bool get_number(span s, int64_t *number) {
    *number = 0;
    for (size_t i = 0; i < s.length; i++) {
        if (s.begin[i] < '0' || s.begin[i] > '9' || i == MOST_DIGITS)
            return false;
        *number = 10 * *number + (s.begin[i] - '0');
    }
    return s.length > 0;
}

typedef enum outcome { MADE, NO_NUMBER, TOO_LONG } outcome;

static outcome make_name(const char *pattern, const span *spans, char to[QN_MAP_NAME]) {
    size_t used = 0;
    to[0] = 0;
    while (*pattern) {
        int star, more;
        const char *end;
        char digits[24];
        int64_t number;
        if (!parse_reference(pattern, &star, &more, &end)) {
            if (!put(to, &used, pattern++, 1))
                return TOO_LONG;
            continue;
        }
        pattern = end;
        span s = spans[star];
        if (more != 0) {
            if (!get_number(s, &number) || number + more < 0)
                return NO_NUMBER;
            snprintf(digits, sizeof digits, "%lld", (long long)(number + more));
            s = (span){digits, strlen(digits)};
        }
        if (!put(to, &used, s.begin, s.length))
            return TOO_LONG;
    }
    return MADE;
}

qn_status qn_name_map_apply(const qn_name_map *map, const char *name, char to[QN_MAP_NAME],
                            const qn_map_rule **rule) {
    char made[QN_MAP_NAME];
    const size_t length = strlen(name);
    *rule = NULL;
    if (length >= QN_MAP_NAME)
        return qn_fail(QN_ERROR_FORMAT, "the name %.60s... is too long", name);
    memcpy(to, name, length + 1);
    for (size_t i = 0; i < map->n_rules; i++) {
        const qn_map_rule *r = &map->rules[i];
        span spans[QN_MAP_CAPTURES];
        if (!match(r->from, to, spans))
            continue;
        const outcome result = make_name(r->to, spans, made);
        if (result == NO_NUMBER)
            continue;
        if (result == TOO_LONG)
            return qn_fail(QN_ERROR_FORMAT,
                           "row %d of the map makes a name of %.60s that is too "
                           "long",
                           r->line, to);
        memcpy(to, made, sizeof made);
        if (!*rule || r->layout != QN_LAYOUT_BY_SHAPE || (*rule)->layout == QN_LAYOUT_BY_SHAPE)
            *rule = r;
        if (!*to)
            break;
    }
    return QN_OK;
}

/* ---- reading ---- */

static int count_stars(const char *pattern) {
    int n = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '*') {
            n++;
            pattern += is_double(pattern);
        }
    }
    return n;
}

/* "{" in to begins a reference to a star that there is; to has no stars. */
static bool are_references_good(const char *to, int n_stars) {
    int star, more;
    const char *end;
    for (; *to; to++) {
        if (*to == '*')
            return false;
        if (*to == '{' && (!parse_reference(to, &star, &more, &end) || star >= n_stars))
            return false;
    }
    return true;
}

static bool parse_layout(const char *text, qn_map_rule *rule) {
    static const struct {
        const char *text;
        qn_map_layout layout;
    } words[] = {{"", QN_LAYOUT_BY_SHAPE},
                 {"same", QN_LAYOUT_SAME},
                 {"swap", QN_LAYOUT_SWAPPED},
                 {"add", QN_LAYOUT_ADDED}};
    qn_shape shape;
    int part, parts, end = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].text, text) == 0) {
            rule->layout = words[i].layout;
            return true;
        }
    }
    if (qn_shape_parse(text, &shape) && shape.rank == 3) {
        rule->layout = QN_LAYOUT_IMAGE;
        memcpy(rule->numbers, shape.dims, sizeof rule->numbers);
        return true;
    }
    if (strlen(text) > 2 * MOST_DIGITS || sscanf(text, "%9d/%9d%n", &part, &parts, &end) != 2 ||
        text[end])
        return false;
    rule->layout = QN_LAYOUT_PART;
    rule->numbers[0] = part;
    rule->numbers[1] = parts;
    return part >= 0 && part < parts && parts <= 64;
}

static qn_status refuse(const qn_csv_reader *row, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s:%lld: %s", row->name, (long long)row->line, what);
}

/* A field of a row, kept as long as the map; "" where the row has fewer. */
static const char *keep_field(qn_name_map *map, const qn_csv_reader *row, size_t i) {
    return i < row->n_fields ? qn_arena_text(&map->texts, qn_csv_text(row, i)) : "";
}

static qn_status check_row(const qn_csv_reader *row) {
    for (size_t i = 0; i < row->n_fields; i++) {
        if (row->fields[i].is_quoted || strchr(qn_csv_text(row, i), '"'))
            return refuse(row, "names are not quoted");
    }
    return row->n_fields == 2 || row->n_fields == 3
               ? QN_OK
               : refuse(row, "a row is from,to or from,to,layout");
}

static qn_status add_rule(qn_name_map *map, const qn_csv_reader *row) {
    QN_TRY(check_row(row));
    qn_map_rule rule = {
        .from = keep_field(map, row, 0), .to = keep_field(map, row, 1), .line = (int)row->line};
    if (!rule.from || !rule.to)
        return QN_ERROR_MEMORY;
    const int n_stars = count_stars(rule.from);
    if (!*rule.from)
        return refuse(row, "from is empty");
    if (n_stars > QN_MAP_CAPTURES)
        return refuse(row, "more than nine stars");
    if (!are_references_good(rule.to, n_stars))
        return refuse(row, "to has no stars, but {1}, {2+1}, for what the stars of from stood for");
    if (!parse_layout(row->n_fields == 3 ? qn_csv_text(row, 2) : "", &rule))
        return refuse(row, "layout is same, swap, add, CxHxW or i/n (part i of n, from 0)");
    if (map->n_rules == MOST_RULES)
        return refuse(row, "too many rows");
    QN_TRY(qn_grow(map->allocator, &map->rules, &map->capacity, map->n_rules + 1, sizeof rule));
    map->rules[map->n_rules++] = rule;
    return QN_OK;
}

void qn_name_map_init(qn_name_map *map, const qn_allocator *allocator) {
    *map = (qn_name_map){.allocator = qn_allocator_or_default(allocator)};
    qn_arena_init(&map->texts, map->allocator);
}

void qn_name_map_deinit(qn_name_map *map) {
    qn_release(map->allocator, map->rules, map->capacity, sizeof *map->rules);
    qn_arena_deinit(&map->texts);
}

static qn_status add_rules(qn_name_map *map, qn_csv_reader *row) {
    for (;;) {
        bool is_end;
        QN_TRY(qn_csv_next(row, &is_end));
        if (is_end)
            return QN_OK;
        if (row->line > 1 || strcmp(qn_csv_text(row, 0), "from") != 0)
            QN_TRY(add_rule(map, row));
    }
}

qn_status qn_name_map_parse(qn_name_map *map, const char *place, const char *text, size_t bytes) {
    qn_csv_reader row;
    qn_csv_read_text(&row, map->allocator, place, text, bytes);
    row.remark = '#';
    const qn_status status = add_rules(map, &row);
    qn_csv_deinit(&row);
    return status;
}
