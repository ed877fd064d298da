/* A server that emits tokens on a known schedule, to measure clients and proxies against.

   token_server PORT LOG [first_ms [gap_ms]]

   One thread, one epoll.  A POST to a path with "completions" is answered as an OpenAI event
   stream: token k leaves first_ms + k * gap_ms after the request was read in whole.  The LOG gets
   one JSON line a request: id, connection, request number on it, arrival and the time just before
   each token's write, all CLOCK_MONOTONIC ns.  The text of the first token is "r<seq> ", so that
   a tool which exports only texts can be matched too.  max_tokens, include_usage and
   continuous_usage_stats are honoured; everything else is ignored.

   PORT 0 takes a free port; the port is printed on stdout.  Loopback only.  SIGTERM ends it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_TOKENS 4096
#define MS 1000000LL

typedef int64_t ns_t;

typedef struct client {
    int fd, id, requests;
    char *in;
    size_t have, room;
    /* the answer in progress */
    int busy, chat, want_usage, running_usage, tokens, sent, seq, slot;
    ns_t arrived, due, wrote[MAX_TOKENS];
    char request_id[128];
} client;

static ns_t first_ns = 50 * MS, gap_ns = 10 * MS;
static int poller, next_client, next_seq;
static FILE *journal;
static volatile sig_atomic_t stopping;

/* A binary heap of busy clients, the earliest due time on top. */
static client **heap;
static int heap_size, heap_room;

static ns_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (ns_t)t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void place(int slot, client *c) {
    heap[slot] = c;
    c->slot = slot;
}

static void rise(client *c) {
    int slot = c->slot;
    while (slot && heap[(slot - 1) / 2]->due > c->due) {
        place(slot, heap[(slot - 1) / 2]);
        slot = (slot - 1) / 2;
    }
    place(slot, c);
}

static void sink(client *c) {
    int slot = c->slot;
    for (;;) {
        int child = 2 * slot + 1;
        if (child >= heap_size) break;
        if (child + 1 < heap_size && heap[child + 1]->due < heap[child]->due) child++;
        if (heap[child]->due >= c->due) break;
        place(slot, heap[child]);
        slot = child;
    }
    place(slot, c);
}

static void schedule(client *c, ns_t due) {
    c->due = due;
    if (c->slot >= 0) {
        rise(c);
        sink(c);
        return;
    }
    if (heap_size == heap_room) heap = realloc(heap, (heap_room = heap_room ? 2 * heap_room : 256) * sizeof *heap);
    place(heap_size++, c);
    rise(c);
}

static void unschedule(client *c) {
    if (c->slot < 0) return;
    client *last = heap[--heap_size];
    int slot = c->slot;
    c->slot = -1;
    if (last == c) return;
    place(slot, last);
    rise(last);
    sink(last);
}

static void write_journal(const client *c, const char *outcome) {
    fprintf(journal, "{\"seq\":%d,\"request_id\":\"%s\",\"client\":%d,\"nth\":%d,\"outcome\":\"%s\",\"arrived_ns\":%lld,\"wrote_ns\":[",
            c->seq, c->request_id, c->id, c->requests, outcome, (long long)c->arrived);
    for (int i = 0; i < c->sent; i++) fprintf(journal, i ? ",%lld" : "%lld", (long long)c->wrote[i]);
    fputs("]}\n", journal);
}

static void hang_up(client *c) {
    if (c->busy) write_journal(c, "aborted");
    unschedule(c);
    close(c->fd);
    free(c->in);
    free(c);
}

static int put(client *c, const char *data, int length) {
    while (length) {
        ssize_t n = send(c->fd, data, length, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue; /* loopback buffers: rare and short */
        if (n <= 0) return -1;
        data += n;
        length -= n;
    }
    return 0;
}

static int chunk(char *out, const char *event, int length) {
    return sprintf(out, "%x\r\n%s\r\n", length, event);
}

/* Write the token that is due; with the last one, the usage, [DONE] and the final chunk. */
static int emit(client *c) {
    char event[1024], out[4096], text[32], usage[160] = "";
    int n = 0, last = c->sent == c->tokens - 1;
    sprintf(text, c->sent ? "w%d " : "r%d ", c->sent ? c->sent : c->seq);
    if (c->running_usage)
        sprintf(usage, ",\"usage\":{\"prompt_tokens\":64,\"completion_tokens\":%d,\"total_tokens\":%d}", c->sent + 1, c->sent + 65);
    if (!c->sent)
        n = sprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n");
    n += chunk(out + n, event,
               sprintf(event,
                       c->chat ? "data: {\"id\":\"c-%d\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"logprobs\":null,\"finish_reason\":%s}]%s}\n\n"
                               : "data: {\"id\":\"c-%d\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"%s\",\"logprobs\":null,\"finish_reason\":%s}]%s}\n\n",
                       c->seq, text, last ? "\"length\"" : "null", usage));
    c->wrote[c->sent] = now();
    if (put(c, out, n)) return -1;
    c->sent++;
    if (!last) {
        schedule(c, c->arrived + first_ns + c->sent * gap_ns);
        return 0;
    }
    n = 0;
    if (c->want_usage)
        n += chunk(out, event,
                   sprintf(event, "data: {\"id\":\"c-%d\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":64,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n",
                           c->seq, c->tokens, c->tokens + 64));
    n += chunk(out + n, event, sprintf(event, "data: [DONE]\n\n"));
    n += sprintf(out + n, "0\r\n\r\n");
    unschedule(c);
    write_journal(c, "ok");
    c->busy = 0;
    return put(c, out, n);
}

static int answer(client *c, const char *status, const char *body) {
    char out[1024];
    return put(c, out, sprintf(out, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(body), body));
}

static void header(const char *head, const char *name, char *value, size_t room) {
    size_t length = strlen(name);
    *value = 0;
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, length) || line[2 + length] != ':') continue;
        const char *from = line + 3 + length;
        while (*from == ' ') from++;
        size_t n = strcspn(from, "\r");
        if (n >= room) n = room - 1;
        memcpy(value, from, n);
        value[n] = 0;
        return;
    }
}

static const char *json_value(const char *body, const char *quoted_key) {
    const char *at = strstr(body, quoted_key);
    if (!at) return "";
    at += strlen(quoted_key);
    return at + strspn(at, " :");
}

static int begin(client *c, const char *path, const char *body, ns_t arrived) {
    if (!strncmp(path, "/v1/models", 10))
        return answer(c, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\",\"created\":1,\"owned_by\":\"bench\",\"root\":\"m\",\"max_model_len\":32768}]}");
    if (!strstr(path, "completions ")) return answer(c, "200 OK", "{}"); /* /health, /metrics and the like */
    int tokens = atoi(json_value(body, "\"max_completion_tokens\""));
    if (tokens < 1) tokens = atoi(json_value(body, "\"max_tokens\""));
    if (tokens < 1) tokens = 64;
    c->tokens = tokens < MAX_TOKENS ? tokens : MAX_TOKENS;
    c->chat = strstr(path, "/chat/") && strstr(path, "/chat/") < strchr(path, ' ');
    c->want_usage = !strncmp(json_value(body, "\"include_usage\""), "true", 4);
    c->running_usage = !strncmp(json_value(body, "\"continuous_usage_stats\""), "true", 4);
    c->seq = next_seq++;
    c->sent = 0;
    c->busy = 1;
    c->arrived = arrived;
    schedule(c, arrived + first_ns);
    return 0;
}

/* Take whole requests off the input while no answer is in progress. */
static int take(client *c, ns_t arrived) {
    while (!c->busy) {
        c->in[c->have] = 0;
        char *end = strstr(c->in, "\r\n\r\n"), length[32];
        if (!end) return 0;
        *end = 0;
        header(c->in, "Content-Length", length, sizeof length);
        header(c->in, "X-Request-Id", c->request_id, sizeof c->request_id);
        *end = '\r';
        size_t whole = end + 4 - c->in + strtoul(length, 0, 10);
        if (c->have < whole) return 0;
        char saved = c->in[whole], *path = strchr(c->in, ' ');
        c->in[whole] = 0;
        c->requests++;
        int failed = path ? begin(c, path + 1, end + 4, arrived) : -1;
        c->in[whole] = saved;
        memmove(c->in, c->in + whole, c->have -= whole);
        if (failed) return -1;
    }
    return 0;
}

static int read_all(client *c) {
    for (;;) {
        if (c->room - c->have < 8192) c->in = realloc(c->in, c->room *= 2);
        ssize_t n = read(c->fd, c->in + c->have, c->room - c->have - 1);
        if (n > 0)
            c->have += n;
        else
            return n < 0 && errno == EAGAIN ? 0 : -1;
    }
}

static void welcome(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        client *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->id = next_client++;
        c->slot = -1;
        c->in = malloc(c->room = 1 << 16);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
    }
}

static void stop(int signal_number) {
    (void)signal_number;
    stopping = 1;
}

int main(int count, char **argument) {
    if (count < 3) return fprintf(stderr, "usage: %s PORT LOG [first_ms [gap_ms]]\n", argument[0]), 2;
    if (count > 3) first_ns = atof(argument[3]) * MS;
    if (count > 4) gap_ns = atof(argument[4]) * MS;
    journal = fopen(argument[2], "w");
    if (!journal) return perror(argument[2]), 1;
    setvbuf(journal, 0, _IOFBF, 1 << 22);
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 1);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argument[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) return perror("bind"), 1;
    socklen_t size = sizeof address;
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = 0}, ready[256];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    while (!stopping) {
        ns_t wait = heap_size ? heap[0]->due - now() : 1000 * MS;
        if (wait < 0) wait = 0;
        struct timespec timeout = {wait / (1000 * MS), wait % (1000 * MS)};
        int n = epoll_pwait2(poller, ready, 256, &timeout, 0);
        for (int i = 0; i < n; i++) {
            client *c = ready[i].data.ptr;
            if (!c) {
                welcome(listener);
                continue;
            }
            int gone = read_all(c);
            if (gone || take(c, now())) hang_up(c);
        }
        for (ns_t t = now(); heap_size && heap[0]->due <= t;) {
            client *c = heap[0];
            if (emit(c) || (!c->busy && take(c, now()))) hang_up(c);
        }
        if (!heap_size) fflush(journal);
    }
    fclose(journal);
    return 0;
}
