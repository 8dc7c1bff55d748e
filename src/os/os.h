/* The only seam to the operating system besides team.h: clock, memory of the process, CPU
 * features, files and folders, plain threads. */
#ifndef QN_OS_OS_H
#define QN_OS_OS_H

#include "quern/base.h"

#include <stdio.h>

/* Monotonic time in nanoseconds. */
int64_t qn_clock_ns(void);

/* Sleeps for about so long, or less. */
void qn_sleep_ns(int64_t ns);

/* Processor time of the calling thread in nanoseconds. */
int64_t qn_thread_cpu_ns(void);

/* Clocks that other programs put into their files. */
typedef enum qn_clock {
    QN_CLOCK_REALTIME,  /* since 1970; can be set */
    QN_CLOCK_MONOTONIC, /* since the system started, without its sleep */
    QN_CLOCK_BOOTTIME,  /* since the system started */
    QN_CLOCK_COUNT
} qn_clock;

/* That clock minus ours at a moment of ours; the truth is within error_ns of it. */
typedef struct qn_clock_offset {
    int64_t at_ns, offset_ns, error_ns;
} qn_clock_offset;

qn_clock_offset qn_clock_compare(qn_clock clock);

/* The date and time of day here: "2026-03-01 14:05". */
enum { QN_DATE_TEXT = 32 };
const char *qn_clock_print_date(char text[QN_DATE_TEXT]);

/* Seconds since 1970 as the clocks here show them, time zone included; "2026-03-01 14:05:09" of
 * such a second, "" of one that no calendar has. */
int64_t qn_clock_local_second(void);
const char *qn_clock_print_second(int64_t second, char text[QN_DATE_TEXT]);

/* Called once at the beginning of a program: opens the null device on standard input, output and
 * error where they are closed, so that no file becomes one of them; and a file that would grow
 * above the limit (ulimit -f) is a failure of that write, not the program's end. */
void qn_process_begin(void);

/* What is printed to standard output from now on goes nowhere. */
qn_status qn_output_discard(void);

/* Largest resident size of this process so far. */
int64_t qn_process_peak_bytes(void);

/* Memory that programs may still take without swapping: what the system has available, within what
 * this container's limit leaves; 0: unknown. */
int64_t qn_memory_available_bytes(void);

/* The machine's name in its network; "" where it has none. */
void qn_host_name(char *name, size_t bytes);

/* Makes the heap give memory back to the system as soon as it is released, so that what is resident
 * is what is held; calls take longer. Before threads are started. */
void qn_memory_give_back_early(void);

/* Gives back what the heap holds and nobody uses. */
void qn_memory_give_back(void);

/* Processors this process may run on (affinity and container limits), at least 1. */
int qn_cpu_count(void);

/* Instruction sets that kernels exist for, in rising order. */
typedef enum qn_isa { QN_ISA_REF = 0, QN_ISA_NEON, QN_ISA_AVX2, QN_ISA_AVX512 } qn_isa;

/* The best this processor and system can run, capped by the environment variable QUERN_ISA
 * (ref, neon, avx2, avx512). An unknown or impossible cap is an error that names the choices. */
qn_status qn_cpu_isa(qn_isa *isa);

/* What some processors have beside a set; QN_CPU_ANY: nothing. */
typedef enum qn_cpu_feature {
    QN_CPU_ANY = 0,
    QN_CPU_AVX_VNNI,
    QN_CPU_AVX512_VNNI,
    QN_CPU_AVX512_BF16,
    QN_CPU_DOTPROD,
} qn_cpu_feature;

/* Whether this processor has a set that the library was built with, and the feature. */
bool qn_cpu_has(qn_isa isa, qn_cpu_feature feature);

const char *qn_isa_name(qn_isa isa);

/* ---- threads ----
 * A child that a process forks has none of its threads. What waits for one there would wait for
 * ever: objects with threads keep the count at which they were made, and are refused at another. A
 * thread or monitor from before the fork may be joined and destroyed in the child, and does nothing
 * else. */
int qn_fork_count(void);

typedef struct qn_thread qn_thread;

/* Starts body(context) on a thread of its own; join waits for it and frees the handle. */
qn_status qn_thread_start(const qn_allocator *allocator, void (*body)(void *), void *context,
                          qn_thread **thread);
void qn_thread_join(qn_thread *thread);

/* A mutex with a condition: what a bounded queue needs. */
typedef struct qn_monitor qn_monitor;
qn_status qn_monitor_create(const qn_allocator *allocator, qn_monitor **monitor);
void qn_monitor_destroy(qn_monitor *monitor);
void qn_monitor_lock(qn_monitor *monitor);
bool qn_monitor_try_lock(qn_monitor *monitor); /* false: another thread holds it */
void qn_monitor_unlock(qn_monitor *monitor);
void qn_monitor_wait(qn_monitor *monitor); /* locked; atomically unlocks, waits, locks */
/* As wait, but no longer than until a moment of qn_clock_ns: whether there was still time. */
bool qn_monitor_wait_until(qn_monitor *monitor, int64_t moment_ns);
void qn_monitor_notify(qn_monitor *monitor); /* wakes all who wait */

/* ---- files ----  Every failure names the path and the system's reason. */
typedef struct qn_file qn_file;

/* Opens for reading at any offset. */
qn_status qn_file_open(const qn_allocator *allocator, const char *path, qn_file **file);
void qn_file_close(qn_file *file);
int64_t qn_file_bytes(const qn_file *file);
const char *qn_file_path(const qn_file *file);

/* Reads exactly bytes at offset; a file that ends earlier is QN_ERROR_FORMAT. Thread-safe. */
qn_status qn_file_read(const qn_file *file, int64_t offset, void *data, size_t bytes);

/* The whole file as memory, which stays when the file is closed; null where it is empty. Reading
 * it is reading the file: what is gone of it, because it was cut short or its disk was pulled out,
 * reads as zeros. So whoever has read asks the check before the result counts, with any address in
 * the mapping: it fails once something was gone. Other memory it takes for sound. While files are
 * mapped, the process has a handler of SIGBUS, which leaves other faults to the one before. */
qn_status qn_file_map(const qn_file *file, const void **memory);
qn_status qn_file_map_check(const void *memory);

/* The same, and fails, too, if somebody wrote to the file since it was mapped. */
qn_status qn_file_map_check_same(const void *memory);
void qn_file_unmap(const void *memory, size_t bytes);

/* Gives back the memory of the mapped file that an address is in; who reads it again reads the file
 * again. Other memory stays. */
void qn_file_forget(const void *memory);

/* Reads a whole file into *bytes + 1 bytes of the allocator, of which the last is 0. */
qn_status qn_file_read_whole(const qn_allocator *allocator, const char *path, char **text,
                             size_t *bytes);

/* Leaves out what follows the first bytes: the file is then as if it ended there. */
void qn_file_limit(qn_file *file, int64_t bytes);

/* Replaces a file so that a reader sees all of the new one or the old one, whatever ends the
 * program or the system: written beside it without a name, synced, renamed over it, its folder
 * synced. Where files without names are not to be had, it is PATH.quern-tmp from the beginning,
 * which is all that a kill leaves and the next writer removes. Where somebody holds that name, it
 * is the next of a few; where all are held, the failure comes within about a second. A symbolic
 * link is followed, and what it points to is replaced; what is no regular file is refused. write is
 * called once and appends with qn_writer_put; on any failure before the rename the path is as it
 * was. */
typedef struct qn_writer qn_writer;
qn_status qn_writer_put(qn_writer *writer, const void *data, size_t bytes);
qn_status qn_file_replace(const char *path, qn_status (*write)(void *context, qn_writer *writer),
                          void *context);

/* Replaces the file `to` by a copy of `from` in the same way. */
qn_status qn_file_copy(const char *from, const char *to);

/* The same of a file that its owner alone may read. */
qn_status qn_file_replace_private(const char *path,
                                  qn_status (*write)(void *context, qn_writer *writer),
                                  void *context);

/* The same for what is written once and may as well go into a stream: "-" and /dev/stdout are
 * standard output, and /dev/stderr and /dev/fd/N what they say. */
qn_status qn_file_write(const char *path, qn_status (*write)(void *context, qn_writer *writer),
                        void *context);

/* Tries, before the work, whether a path can be replaced (or written to, where it may be a stream),
 * and removes what an earlier writer of it has left. */
qn_status qn_file_check_target(const char *path, bool may_be_stream);

/* Gives a file another name in the same folder, over what has it; both are lasting then. */
qn_status qn_file_move(const char *from, const char *to);

/* Gives a file another place on the same disk, where there is nothing; both are lasting then.
 * What is no regular file, a link among them, is refused; so is a place where something is,
 * *is_there. */
qn_status qn_file_move_new(const char *from, const char *to, bool *is_there);

/* A file without a name that is not to last: what write puts into it. path is for messages. */
qn_status qn_file_make(const qn_allocator *allocator, const char *path,
                       qn_status (*write)(void *context, qn_writer *writer), void *context,
                       qn_file **file);

/* Whether something is there. */
bool qn_path_is_file(const char *path);
bool qn_path_is_folder(const char *path);

/* Makes a folder and those above it; one that exists is fine. */
qn_status qn_folder_create(const char *path);

/* Makes one in a folder that exists; *is_new false: something of the name was there before. */
qn_status qn_folder_create_new(const char *path, bool *is_new);

/* What is at path can be read, written and entered by its owner alone, as far as it is ours. */
qn_status qn_path_make_private(const char *path);

/* The same of a file, which is made where there is none. A link is refused. */
qn_status qn_file_make_private(const char *path);

/* What the process makes from now on is readable by nobody who may not read the file or folder at
 * path. Before threads are started. */
void qn_rights_narrow(const char *path);

/* One in which something is stays. */
void qn_folder_remove_empty(const char *path);

/* Calls visit for every entry but . and .., sorted by name in bytes; stops at its first failure. */
qn_status qn_folder_list(const qn_allocator *allocator, const char *path,
                         qn_status (*visit)(void *context, const char *name, bool is_folder),
                         void *context);

/* The user's cache folder of this program: $XDG_CACHE_HOME/quern or ~/.cache/quern, which nobody
 * else may enter, or, where that cannot be made or written, quern-UID in $TMPDIR or /tmp. Made if
 * it is not there; its path goes to path. */
qn_status qn_folder_cache(char *path, size_t bytes);

/* Folders of data of this program, from the user's ($XDG_DATA_HOME/quern or ~/.local/share/quern)
 * to the system's (those of $XDG_DATA_DIRS). They need not be there. False: index is beyond the
 * last. */
bool qn_folder_data(int index, char *path, size_t bytes);

/* The path from the root, links resolved; the file must exist. */
qn_status qn_path_resolve(const char *path, char *resolved, size_t bytes);

/* Modification time in nanoseconds since the epoch; 0 when unknown. */
int64_t qn_file_modified_ns(const char *path);

/* Likewise of the last access; of a terminal, when it was last typed at. */
int64_t qn_file_accessed_ns(const char *path);

/* Size of a file in bytes; -1 when unknown. */
int64_t qn_path_bytes(const char *path);

/* Removes a file; one that is not there, or must stay, is no failure. */
void qn_file_remove(const char *path);

/* ---- other programs ---- */
typedef struct qn_process qn_process;

/* Whether a program of this name is found in PATH. */
bool qn_program_is_there(const char *name);

/* Starts a command with the shell, with its standard input and output to us; its messages go where
 * ours go. It is in a process group of its own: a Ctrl-C is for us alone. */
qn_status qn_process_start(const qn_allocator *allocator, const char *command,
                           qn_process **process);

/* The same for a process that gets open files as its descriptors 3 and on. */
enum { QN_PROCESS_MOST_FILES = 4 };
qn_status qn_process_start_with(const qn_allocator *allocator, const char *command,
                                const int *files, int n_files, qn_process **process);

/* Ends it at once, from any thread: what waits for it fails. */
void qn_process_kill(const qn_process *process);

/* Closes its standard input, waits for a second, and then ends it and all of its group. */
void qn_process_close(qn_process *process);

/* Both fail with QN_ERROR_IO after so many nanoseconds, and when the process has ended (the message
 * then says how). Write gives all of the bytes; read takes what there is, at least one byte. */
qn_status qn_process_write(qn_process *process, const void *data, size_t bytes, int64_t timeout_ns);
qn_status qn_process_read(qn_process *process, void *data, size_t bytes, int64_t timeout_ns,
                          size_t *n_read);

/* How a program that was run came to its end. */
typedef struct qn_program_end {
    bool was_stopped;   /* because should_stop said so */
    int status;         /* exit status; -1: ended by a signal */
    int signal;         /* that ended it, or 0 */
    int64_t peak_bytes; /* largest resident size */
    char last[256];     /* the last line that it wrote to its standard error, or "" */
} qn_program_end;

/* Whether a signal is the one that cannot be caught: memory was out, as a rule. */
bool qn_signal_is_kill(int signal);

/* Runs a program with arguments (the first is its path, the one after the last is null) to its end.
 * What it prints goes nowhere. It is in a process group of its own, is ended when we end, whatever
 * ends us, and is the first to go when the system runs out of memory. should_stop (may be null) is
 * asked ten times a second; true ends the program. Fails only where it cannot be started. */
qn_status qn_subprocess_run(const char *const *arguments, bool (*should_stop)(void *user),
                            void *user, qn_program_end *end);

#endif
