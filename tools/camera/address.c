/* A URL taken apart and put together again for libavformat, with the user name and the password encoded. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/camera/address.h"
#include "tools/camera/reason.h"

enum { MOST_CREDENTIALS = 127 }; /* bytes of user:password, encoded: libavformat cuts longer ones of rtsp without a word */

struct scheme {
  const char *name;
  enum address_kind kind;
  const char *port; /* NULL: the URL must have one */
  const char *protocols;
};

/* A playlist or a redirect names other URLs. The lists keep them from naming a file or another kind of network. */
#define HTTP_PROTOCOLS "http,https,tcp,tls,crypto,data"
#define RTSP_PROTOCOLS "rtp,udp,tcp,tls,srtp,rtsp,rtsps"

static const struct scheme schemes[] = {
    {"rtsp", ADDRESS_RTSP, "554", RTSP_PROTOCOLS}, {"rtsps", ADDRESS_RTSP, "322", RTSP_PROTOCOLS},
    {"http", ADDRESS_HTTP, "80", HTTP_PROTOCOLS},  {"https", ADDRESS_HTTP, "443", HTTP_PROTOCOLS},
    {"srt", ADDRESS_SRT, NULL, "srt,udp"},         {"file", ADDRESS_FILE, NULL, "file"},
    {"v4l2", ADDRESS_V4L2, NULL, "file"},
};

static const struct scheme *find_scheme(const char *url, size_t length) {
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
    if (strlen(schemes[i].name) == length && strncmp(url, schemes[i].name, length) == 0) {
      return &schemes[i];
    }
  }
  return NULL;
}

/* -- files and devices ----------------------------------------------------------------------------------------------- */

static bool read_path(struct address *address, const char *url, const char *path, struct reason *reason) {
  path += strncmp(path, "//", 2) == 0 ? 2 : 0;
  if (path[0] != '/') {
    return reason_set(reason, REASON_URL,
                      "a path must begin with '/': write for example file:/srv/yard.mp4 or v4l2:/dev/video0");
  }
  snprintf(address->name, sizeof address->name, "%s", strrchr(path, '/') + 1);
  const char *prefix = address->kind == ADDRESS_FILE ? "file:" : "";
  size_t room = strlen(prefix) + strlen(path) + 1;
  address->url = malloc(room);
  if (!address->url) {
    return reason_set(reason, REASON_URL, "no memory for the URL");
  }
  snprintf(address->url, room, "%s%s", prefix, path);
  (void)url;
  return true;
}

/* -- hosts ------------------------------------------------------------------------------------------------------------- */

/* Percent-encodes all but the characters that no part of a URL reserves. Returns the end of what it wrote. */
static char *encode(char *to, const char *from) {
  for (; *from; from++) {
    unsigned char byte = (unsigned char)*from;
    if (isalnum(byte) || strchr("-._~", byte)) {
      *to++ = (char)byte;
    } else {
      to += sprintf(to, "%%%02X", byte);
    }
  }
  *to = '\0';
  return to;
}

/* "user:password@" on the heap, "" without a user; `given` is what the URL has before its '@'. */
static char *write_credentials(const char *user, const char *password, const char *given, size_t given_length) {
  size_t room = user ? 3 * (strlen(user) + strlen(password ? password : "")) + 3 : given_length + 2;
  char *text = malloc(room);
  if (text && user) {
    char *end = encode(text, user);
    *end++ = ':';
    end = encode(end, password ? password : "");
    snprintf(end, 2, "@");
  } else if (text) {
    snprintf(text, room, "%.*s%s", (int)given_length, given, given_length > 0 ? "@" : "");
  }
  return text;
}

static bool read_host(struct address *address, const char *text, size_t length, const char *port, struct reason *reason) {
  bool bracketed = length > 0 && text[0] == '[';
  const char *end = bracketed ? memchr(text, ']', length) : memchr(text, ':', length);
  size_t host = end ? (size_t)(end - text) : length;
  const char *rest = bracketed && end ? end + 1 : end ? end : text + length;
  if ((bracketed && !end) || host <= (size_t)bracketed || host - (size_t)bracketed >= sizeof address->host) {
    return reason_set(reason, REASON_URL, "the URL has no host: write for example rtsp://10.0.0.17/main");
  }
  snprintf(address->host, sizeof address->host, "%.*s", (int)(host - (size_t)bracketed), text + bracketed);
  size_t digits = (size_t)(text + length - rest);
  snprintf(address->port, sizeof address->port, "%s", port ? port : "");
  if (digits > 0) {
    snprintf(address->port, sizeof address->port, "%.*s", (int)digits - 1, rest + 1);
  }
  int number = atoi(address->port);
  if ((digits > 0 && rest[0] != ':') || digits > 6 || address->port[strspn(address->port, "0123456789")] || number < 1 ||
      number > 65535) {
    return reason_set(reason, REASON_URL, "the URL has no valid port: write for example %s",
                      port ? ":8554" : "srt://10.0.0.17:9000");
  }
  snprintf(address->name, sizeof address->name, "%.80s:%s", address->host, address->port);
  return true;
}

static bool check_characters(const char *url, struct reason *reason) {
  for (const char *at = url; *at; at++) {
    if ((unsigned char)*at <= ' ' || *at == 0x7f) {
      return reason_set(reason, REASON_URL, "the URL has a space or a control character: write %%20 for a space");
    }
  }
  return true;
}

static bool read_network(struct address *address, const struct scheme *scheme, const char *url, const char *user,
                         const char *password, struct reason *reason) {
  const char *authority = url + strlen(scheme->name) + 1;
  if (!check_characters(url, reason)) {
    return false;
  }
  if (strncmp(authority, "//", 2) != 0) {
    return reason_set(reason, REASON_URL, "write the URL as %s://HOST/PATH", scheme->name);
  }
  authority += 2;
  size_t length = strcspn(authority, "/?#");
  const char *at = memrchr(authority, '@', length);
  size_t given = at ? (size_t)(at - authority) : 0;
  const char *host = at ? at + 1 : authority;
  if (!read_host(address, host, length - (size_t)(host - authority), scheme->port, reason)) {
    return false;
  }
  char *credentials = write_credentials(user, password, authority, given);
  size_t room = strlen(url) + (credentials ? strlen(credentials) : 0) + 4;
  address->url = malloc(room);
  if (!credentials || !address->url) {
    free(credentials);
    return reason_set(reason, REASON_URL, "no memory for the URL");
  }
  address->has_user = credentials[0] != '\0';
  bool fits = scheme->kind != ADDRESS_RTSP || strlen(credentials) <= MOST_CREDENTIALS + 1;
  snprintf(address->url, room, "%s://%s%s", scheme->name, credentials, host);
  explicit_bzero(credentials, strlen(credentials));
  free(credentials);
  return fits || reason_set(reason, REASON_PASSWORD, "user name and password have more than %d bytes together, percent-encoded",
                            MOST_CREDENTIALS);
}

bool address_read(struct address *address, const char *url, const char *user, const char *password, struct reason *reason) {
  size_t length = strcspn(url, ":");
  const struct scheme *scheme = url[length] == ':' ? find_scheme(url, length) : NULL;
  *address = (struct address){.url = NULL};
  if (!scheme) {
    return reason_set(reason, REASON_URL, "the URL must begin with rtsp:, rtsps:, http:, https:, srt:, file: or v4l2:");
  }
  address->kind = scheme->kind;
  address->protocols = scheme->protocols;
  if (scheme->kind == ADDRESS_FILE || scheme->kind == ADDRESS_V4L2) {
    return read_path(address, url, url + strlen(scheme->name) + 1, reason);
  }
  return read_network(address, scheme, url, user, password, reason);
}

void address_clear(struct address *address) {
  if (address->url) {
    explicit_bzero(address->url, strlen(address->url));
  }
  free(address->url);
  *address = (struct address){.url = NULL};
}
