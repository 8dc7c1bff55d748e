/* See values.h. */
#include "data/table/values.h"

#include "base/decimal.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64, GROUP = 3 };

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words; words++)
        if (qn_text_is_same(text, *words))
            return true;
    return false;
}

bool qn_value_is_missing(const char *text, bool is_target) {
    static const char *const always[] = {"na", "n/a", "nan", "null", "#n/a", "<na>", "-nan", NULL};
    static const char *const of_inputs[] = {"none", "?", "inf", "-inf", "+inf", "infinity", NULL};
    if (!*text)
        return true;
    if (strlen(text) > 8 || (text[0] >= '0' && text[0] <= '9'))
        return false;
    return is_one_of(text, always) || (!is_target && is_one_of(text, of_inputs));
}

bool qn_value_truth(const char *text, double *value) {
    static const char *const yes[] = {"true", "yes", "t", "y", NULL};
    static const char *const no[] = {"false", "no", "f", "n", NULL};
    *value = is_one_of(text, yes);
    return *value > 0 || is_one_of(text, no);
}

/* ---- numbers ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static size_t count_digits(const char *text) {
    size_t n = 0;
    while (is_digit(text[n]))
        n++;
    return n;
}

/* Digits in groups of three with a mark between, at least one mark; returns what follows them, or
 * null. */
static const char *skip_groups(const char *text, char mark) {
    const size_t first = count_digits(text);
    int n_groups = 0;
    if (first < 1 || first > GROUP || (first == 1 && text[0] == '0'))
        return NULL;
    for (text += first; *text == mark && count_digits(text + 1) == GROUP; text += 1 + GROUP)
        n_groups++;
    return n_groups > 0 ? text : NULL;
}

qn_number_marks qn_value_marks(const char *text) {
    text += *text == '-' || *text == '+';
    const char *point = strrchr(text, '.'), *comma = strrchr(text, ',');
    if (strspn(text, "0123456789.,") != strlen(text) || (!point && !comma))
        return QN_MARKS_NONE;
    const char last = !comma || (point && point > comma) ? '.' : ',';
    const char other = last == '.' ? ',' : '.';
    const qn_number_marks decimal = last == '.' ? QN_MARKS_POINT : QN_MARKS_COMMA;
    const qn_number_marks grouped = last == '.' ? QN_MARKS_COMMA : QN_MARKS_POINT;
    const char *end = skip_groups(text, last), *others = skip_groups(text, other);
    if (point && comma) /* the last is decimal, the others group */
        return others && *others == last && !others[1 + count_digits(others + 1)] ? decimal
                                                                                  : QN_MARKS_NONE;
    if (end && !*end && strchr(text, last) == strrchr(text, last))
        return last == '.' ? QN_MARKS_POINT_OR_GROUP : QN_MARKS_COMMA_OR_GROUP;
    if (end && !*end)
        return grouped;
    return strchr(text, last) == strrchr(text, last) && text[1] ? decimal : QN_MARKS_NONE;
}

/* A number whose thousands are grouped, or whose decimal mark is a comma, as one without. */
static bool write_plainly(const char *text, char decimal, char *plain) {
    const char group = decimal == '.' ? ',' : '.';
    const char *digits = text + (*text == '-' || *text == '+');
    const char *end = strchr(digits, group) ? skip_groups(digits, group) : digits;
    size_t n = 0;
    if (!end || strlen(text) >= NUMBER_BYTES || strchr(end, group))
        return false;
    for (; *text; text++)
        if (*text != group)
            plain[n++] = *text == decimal ? '.' : *text;
    plain[n] = 0;
    return true;
}

bool qn_value_number(const char *text, char decimal, double *value) {
    char plain[NUMBER_BYTES];
    if (decimal == '.' && !strchr(text, ','))
        return qn_decimal_parse(text, value);
    return write_plainly(text, decimal, plain) && qn_decimal_parse(plain, value);
}

/* ---- dates ---- */

/* Digits, at least one and at most so many. */
static bool take_number(const char **at, size_t most, int *number) {
    const size_t n = count_digits(*at);
    *number = 0;
    for (size_t i = 0; i < n && n <= most; i++)
        *number = *number * 10 + ((*at)[i] - '0');
    *at += n;
    return n >= 1 && n <= most;
}

/* Days from 2000-01-01, by the proleptic Gregorian calendar; years begin in March. */
static double count_days(int year, int month, int day) {
    const int y = month > 2 ? year : year - 1, m = (month + 9) % 12;
    const int before = 365 * y + y / 4 - y / 100 + y / 400;
    return before + (m * 306 + 5) / 10 + day - 1 - 730425;
}

static bool is_day(int year, int month, int day) {
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] &&
           (month != 2 || day < 29 || is_leap);
}

/* Z, or an offset such as +02:00. */
static bool is_zone(const char *at) {
    if (*at == 'Z' && !at[1])
        return true;
    if (*at != '+' && *at != '-')
        return !*at;
    int hours, minutes = 0;
    at++;
    if (!take_number(&at, 4, &hours))
        return false;
    at += *at == ':';
    return !*at || (take_number(&at, 2, &minutes) && !*at);
}

/* What follows the day: nothing, or a time. */
static bool take_time(const char *at, qn_value_day *day) {
    int hours, minutes, seconds = 0;
    double part = 0, unit = 0.1;
    if (!*at)
        return true;
    if ((*at != 'T' && *at != ' ') || (at++, !take_number(&at, 2, &hours)) || *at++ != ':' ||
        !take_number(&at, 2, &minutes))
        return false;
    if (*at == ':' && (at++, !take_number(&at, 2, &seconds)))
        return false;
    for (at += *at == '.'; is_digit(*at); at++, unit /= 10)
        part += unit * (*at - '0');
    day->has_time = true;
    day->days += (hours + (minutes + (seconds + part) / 60) / 60) / 24;
    return hours < 24 && minutes < 60 && seconds <= 60 && is_zone(at);
}

bool qn_value_date(const char *text, bool day_first, qn_value_day *day) {
    const char *at = text;
    int a, b, c;
    *day = (qn_value_day){.days = 0};
    const size_t first = count_digits(text);
    const char mark = text[first];
    if ((mark != '-' && mark != '/' && mark != '.') || !take_number(&at, 4, &a) || *at++ != mark ||
        !take_number(&at, 2, &b) || *at++ != mark || !take_number(&at, 4, &c))
        return false;
    const bool is_year_first = first == 4;
    if (!is_year_first && c < 1000)
        return false; /* years have four digits */
    if (is_year_first) {
        day->days = count_days(a, b, c);
        return is_day(a, b, c) && take_time(at, day);
    }
    const bool can_be_day_first = is_day(c, b, a),
               can_be_month_first = mark != '.' && is_day(c, a, b);
    day->is_day_first = can_be_day_first && !can_be_month_first;
    day->is_month_first = can_be_month_first && !can_be_day_first;
    day->has_either_order = can_be_day_first && can_be_month_first && a != b;
    const bool takes_day_first =
        day->is_day_first || (can_be_day_first && (day_first || !can_be_month_first));
    day->days = takes_day_first ? count_days(c, b, a) : count_days(c, a, b);
    return (can_be_day_first || can_be_month_first) && take_time(at, day);
}

/* ---- medians ---- */

static int compare_floats(const void *left, const void *right) {
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

float qn_value_median(float *values, size_t n) {
    if (n == 0)
        return 0.0f;
    qsort(values, n, sizeof *values, compare_floats);
    return values[n / 2];
}
