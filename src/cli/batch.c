#include "batch.h"

#include "run_file.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool redirect(int fd, const char *path, int flags)
{
    int to = open(path, flags | O_CLOEXEC, 0600);
    bool ok = to >= 0 && dup2(to, fd) == fd;
    if (!ok)
        cli_error("%s: %s", path, strerror(errno));
    return ok;
}

static void name_file(char path[BATCH_PATH], const char *place, size_t index, const char *what)
{
    snprintf(path, BATCH_PATH, "%.4000s/%zu.%s", place, index, what);
}

/* Runs a program in a child process, and writes what the model counted to a file. */
static int run_one(const struct batch_run *job, const char *place, size_t index)
{
    char data[BATCH_PATH], counts[BATCH_PATH];
    struct output output;
    struct run_file result;
    name_file(data, place, index, "data");
    name_file(counts, place, index, "counts");
    int status = output_open(&output, data, OUTPUT_PRIVATE | (job->truth ? OUTPUT_TRUTH : 0));
    struct run run = {.options = {.keep = true,
                                  .truth = job->truth,
                                  .truth_parts = job->truth,
                                  .alone = job->alone,
                                  .stack = job->stack,
                                  .start_at = job->start_at,
                                  .stop_at = job->stop_at,
                                  .disabled = job->start_at,
                                  .regions = job->start_at || job->stop_at,
                                  .prefix = data}};
    if (!status)
        status = run_guest(&job->options, job->argv, &run);
    if (status)
        return status;
    status = run_file_finish(&output, NULL, run.directory, run.left, &result);
    FILE *file = fopen(counts, "we");
    if (!file || fwrite(&run.totals, sizeof run.totals, 1, file) != 1 ||
        fwrite(&run.status, sizeof run.status, 1, file) != 1 || fclose(file)) {
        cli_error("%s: %s", counts, strerror(errno));
        status = CLI_DATA;
    }
    left_close(run.left);
    engine_free(run.engine);
    output_close(&output);
    return status;
}

static pid_t begin(const struct batch_run *job, const char *place, size_t index)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid)
        return pid;
    char path[BATCH_PATH];
    enum { TO = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND };
    signal(SIGINT, SIG_DFL);
    name_file(path, place, index, "messages");
    if (!redirect(STDERR_FILENO, path, TO))
        exit(CLI_DATA);
    if (job->directory && chdir(job->directory)) {
        cli_error("%s: %s", job->directory, strerror(errno));
        exit(CLI_USAGE);
    }
    if (!redirect(STDIN_FILENO, job->input ? job->input : "/dev/null", O_RDONLY))
        exit(CLI_USAGE);
    name_file(path, place, index, "output");
    exit(redirect(STDOUT_FILENO, path, TO) ? run_one(job, place, index) : CLI_DATA);
}

static void show(const char *place, size_t index, const char *what, FILE *to)
{
    char path[BATCH_PATH], bytes[4096];
    size_t n;
    name_file(path, place, index, what);
    FILE *file = fopen(path, "re");
    while (file && (n = fread(bytes, 1, sizeof bytes, file)))
        fwrite(bytes, 1, n, to);
    if (file)
        fclose(file);
    fflush(to);
}

static bool take(struct batch_run *job, const char *place, size_t index)
{
    char counts[BATCH_PATH];
    name_file(job->data, place, index, "data");
    name_file(counts, place, index, "counts");
    FILE *file = fopen(counts, "re");
    job->done = file && fread(&job->totals, sizeof job->totals, 1, file) == 1 &&
                fread(&job->status, sizeof job->status, 1, file) == 1;
    if (file)
        fclose(file);
    return job->done;
}

/* Handles the end of a run: reads its counts, shows its output. Returns its exit code. */
static int end(struct batch_run *job, const char *place, size_t index, int how)
{
    bool good = take(job, place, index) && WIFEXITED(how) && !WEXITSTATUS(how);
    bool failed = job->name && good && job->status;
    cli_progress_end();
    if (job->show)
        show(place, index, "output", stdout);
    else if (failed)
        show(place, index, "output", stderr);
    if (!good && job->name)
        cli_note("%s:", job->name);
    if (!good || job->show || failed)
        show(place, index, "messages", stderr);
    if (good)
        return CLI_OK;
    return WIFEXITED(how) && WEXITSTATUS(how) ? WEXITSTATUS(how) : CLI_DATA;
}

static void show_progress(const char *what, size_t done, size_t count, time_t begun)
{
    char left[48] = "";
    time_t took = time(NULL) - begun;
    if (done && took)
        snprintf(left, sizeof left, ", about %lld s left",
                 (long long)(took * (time_t)(count - done) / (time_t)done));
    cli_progress_text("%s: %zu of %zu%s", what, done, count, left);
}

int batch_do(struct batch_run *runs, size_t count, unsigned at_a_time, const char *place,
             const char *what)
{
    size_t next = 0, running = 0, done = 0, before = 0;
    pid_t *pids = memory_get(count + 1, sizeof *pids);
    int status = CLI_OK, how;
    time_t begun = time(NULL);
    void (*old)(int) = signal(SIGINT, SIG_IGN); /* the signal reaches the runs by itself */
    for (size_t i = 0; i < count; i++)
        before += runs[i].done;
    while (running || (next < count && !status)) {
        show_progress(what, done, count - before, begun);
        if (next < count && runs[next].done) {
            pids[next++] = 0;
            continue;
        }
        if (next < count && running < at_a_time && !status) {
            pids[next] = begin(&runs[next], place, next);
            running += pids[next] > 0;
            if (pids[next] < 0) {
                cli_error("fork: %s", strerror(errno));
                status = CLI_DATA;
            }
            next++;
            continue;
        }
        pid_t pid = waitpid(-1, &how, 0);
        if (pid < 0 && errno != EINTR)
            break;
        for (size_t i = 0; i < next; i++) {
            if (pid <= 0 || pids[i] != pid)
                continue;
            running--;
            done++;
            pids[i] = 0;
            int code = end(&runs[i], place, i, how);
            status = status ? status : code;
        }
    }
    cli_progress_end();
    signal(SIGINT, old);
    free(pids);
    return status;
}
