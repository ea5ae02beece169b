#include "daemon/status/access.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOST_ROOM = 256 };

/* -- the token ------------------------------------------------------------------------------------------------------ */

enum { ACCESS_LEAST = 16, ACCESS_MOST = 256 };

/* Whether the file holds a token: a line of 16 to 256 letters, digits and `-._~+/=`. */
static bool access_read_token(const char *path, char token[ACCESS_MOST + 1]) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  bool is_file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  ssize_t length = is_file ? read(fd, token, ACCESS_MOST) : -1;
  int error = fd < 0 || (is_file && length < 0) ? errno : EINVAL;
  if (fd >= 0) {
    close(fd);
  }
  token[length > 0 ? length : 0] = '\0';
  token[strcspn(token, "\r\n")] = '\0';
  errno = error;
  return strlen(token) >= ACCESS_LEAST && strspn(token, allowed) == strlen(token);
}

/* Takes as long for each guess as for any other. */
static bool is_token(const char *guess, const char *token) {
  size_t length = strlen(token);
  unsigned differs = strlen(guess) != length;
  for (size_t i = 0; i < length && guess[i]; i++) {
    differs |= (unsigned)(guess[i] ^ token[i]);
  }
  return differs == 0;
}

static bool has_token(const struct access_headers *headers, const char *token) {
  static const char scheme[] = "Bearer ";
  const char *authorization = headers->authorization;
  return (authorization && strncasecmp(authorization, scheme, sizeof scheme - 1) == 0 &&
          is_token(authorization + sizeof scheme - 1, token)) ||
         (headers->cookie && is_token(headers->cookie, token));
}

/* -- where a browser asks from --------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text);
  return length >= strlen(end) && strcasecmp(text + length - strlen(end), end) == 0;
}

/* An address, or a name that no other website has. */
static bool is_our_host(const char *header) {
  char host[HOST_ROOM];
  struct in_addr address;
  if (!header || header[0] == '[') { /* what is no browser, or an address of IPv6 */
    return true;
  }
  size_t length = strcspn(header, ":");
  if (length >= sizeof host) {
    return false;
  }
  memcpy(host, header, length);
  host[length] = '\0';
  return !strchr(host, '.') || ends_with(host, ".localhost") || inet_pton(AF_INET, host, &address) == 1;
}

static bool is_our_origin(const struct access_headers *headers) {
  const char *begin = headers->origin ? strstr(headers->origin, "://") : NULL;
  if (headers->origin && (!begin || !headers->host || strcasecmp(begin + 3, headers->host) != 0)) {
    return false;
  }
  bool own = !headers->site || strcasecmp(headers->site, "same-origin") == 0 || strcasecmp(headers->site, "none") == 0;
  bool elsewhere = !own && strcasecmp(headers->site, "same-site") != 0; /* that is another port of this machine */
  /* A link may lead here, and shows the page alone. A form of another page may not: it is a POST. */
  return headers->commands ? own : !elsewhere || (headers->mode && strcmp(headers->mode, "navigate") == 0);
}

enum access access_judge(const struct access_headers *headers, const char *token) {
  char wanted[ACCESS_MOST + 1];
  if (!is_our_origin(headers)) {
    return ACCESS_WRONG_ORIGIN;
  }
  if (!token) {
    return is_our_host(headers->host) ? ACCESS_GRANTED : ACCESS_WRONG_HOST;
  }
  if (!access_read_token(token, wanted)) {
    return ACCESS_NO_FILE;
  }
  return has_token(headers, wanted) ? ACCESS_GRANTED : ACCESS_NO_TOKEN;
}
