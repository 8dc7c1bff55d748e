/* Stands for a program that calls setlocale before it uses the library, as graphical programs and
 * interpreters do: loaded with LD_PRELOAD it takes the locale of the environment. */
#include <locale.h>

__attribute__((constructor)) static void begin(void) {
    setlocale(LC_ALL, "");
}
