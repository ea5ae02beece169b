/* WS-Discovery: one Probe by UDP to each network, then answers until the time is over. Answers are a stranger's text. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/framectl/camera/find.h"
#include "tools/framectl/common/text.h"

enum { PORT = 3702, MOST_FOUND = 1024, ANSWER = 65536, SCOPES = 4096 };
#define GROUP    "239.255.255.250"
#define PATIENCE 3.0 /* seconds; cameras answer within half a second */

static const char probe[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><e:Envelope xmlns:e=\"http://www.w3.org/2003/05/soap-envelope\" "
    "xmlns:w=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" xmlns:d=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\" "
    "xmlns:dn=\"http://www.onvif.org/ver10/network/wsdl\"><e:Header><w:MessageID>uuid:%08x-%04x-4%03x-8%03x-%08x%04x</"
    "w:MessageID>"
    "<w:To e:mustUnderstand=\"true\">urn:schemas-xmlsoap-org:ws:2005:04:discovery</w:To><w:Action e:mustUnderstand=\"true\">"
    "http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</w:Action></e:Header><e:Body><d:Probe>"
    "<d:Types>dn:NetworkVideoTransmitter</d:Types></d:Probe></e:Body></e:Envelope>";

/* -- answers --------------------------------------------------------------------------------------------------------------- */

/* The text of the first element of that name, whatever its prefix. */
static bool element_text(const char *xml, const char *name, char *text, size_t room) {
  size_t length = strlen(name);
  for (const char *at = strchr(xml, '<'); at; at = strchr(at + 1, '<')) {
    const char *colon = at + 1 + strcspn(at + 1, ": \t\r\n/>");
    const char *local = *colon == ':' ? colon + 1 : at + 1;
    if (strncmp(local, name, length) == 0 && strchr(" \t\r\n>", local[length]) && local[length]) {
      const char *begin = strchr(local, '>');
      if (!begin) {
        return false;
      }
      begin += 1 + strspn(begin + 1, " \t\r\n");
      snprintf(text, room, "%.*s", (int)strcspn(begin, "<"), begin);
      return text[0] != '\0';
    }
  }
  return false;
}

static void decode_percent(char *text) {
  char *to = text;
  for (const char *from = text; *from; to++) {
    char digits[3] = {from[0] == '%' ? from[1] : '\0', '\0', '\0'};
    digits[1] = digits[0] ? from[2] : '\0';
    bool is_code = isxdigit((unsigned char)digits[0]) && isxdigit((unsigned char)digits[1]);
    *to = is_code ? (char)strtol(digits, NULL, 16) : *from;
    from += is_code ? 3 : 1;
  }
  *to = '\0';
}

/* Scopes are URLs such as onvif://www.onvif.org/name/Yard%20West. */
static void take_scope(const char *scopes, const char *kind, char text[FOUND_TEXT]) {
  const char *at = strstr(scopes, kind);
  at = at ? at + strlen(kind) : "";
  snprintf(text, FOUND_TEXT, "%.*s", (int)strcspn(at, " \t\r\n"), at);
  decode_percent(text);
}

bool find_parse(const char *answer, struct found *found) {
  char scopes[SCOPES] = "";
  if (!strstr(answer, "ProbeMatch") || !element_text(answer, "XAddrs", found->service, sizeof found->service)) {
    return false;
  }
  found->service[strcspn(found->service, " \t\r\n")] = '\0'; /* the first of several */
  (void)element_text(answer, "Scopes", scopes, sizeof scopes);
  const char *reference = strstr(answer, "EndpointReference");
  if (!reference || !element_text(reference, "Address", found->endpoint, sizeof found->endpoint)) {
    snprintf(found->endpoint, sizeof found->endpoint, "%s", found->service);
  }
  take_scope(scopes, "/name/", found->name);
  take_scope(scopes, "/hardware/", found->hardware);
  return true;
}

/* -- the question ---------------------------------------------------------------------------------------------------------- */

static bool send_probe(int fd, const struct sockaddr_in *to) {
  char text[sizeof probe + 64];
  unsigned id[6] = {0};
  (void)!getrandom(id, sizeof id, 0);
  int length =
      snprintf(text, sizeof text, probe, id[0], id[1] & 0xffffU, id[2] & 0xfffU, id[3] & 0xfffU, id[4], id[5] & 0xffffU);
  return sendto(fd, text, (size_t)length, 0, (const struct sockaddr *)to, sizeof *to) == length;
}

/* Each network of this machine gets its own Probe: the kernel would send one to the first network alone. */
static unsigned ask_networks(int fd, const struct sockaddr_in *to) {
  struct ifaddrs *all = NULL;
  unsigned asked = 0;
  if (getifaddrs(&all) != 0) {
    return 0;
  }
  for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
    bool is_useful = one->ifa_addr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP) &&
                     (one->ifa_flags & IFF_MULTICAST) && !(one->ifa_flags & IFF_LOOPBACK);
    struct sockaddr_in own;
    if (is_useful) {
      memcpy(&own, one->ifa_addr, sizeof own);
      asked += setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &own.sin_addr, sizeof own.sin_addr) == 0 && send_probe(fd, to);
    }
  }
  freeifaddrs(all);
  return asked;
}

static int ask(const char *address, struct problem *problem) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  if (inet_pton(AF_INET, address ? address : GROUP, &to.sin_addr) != 1) {
    problem_set(problem, EXIT_STATUS_USAGE, "write for example 10.0.0.17", "'%s' is no IPv4 address", address);
    return -1;
  }
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || (address ? !send_probe(fd, &to) : ask_networks(fd, &to) == 0)) {
    problem_set(problem, EXIT_STATUS_INTERNAL, "name the address of one camera: framectl camera find 10.0.0.17",
                "no network could be asked: %s", strerror(errno));
    if (fd >= 0) {
      close(fd);
    }
    return -1;
  }
  return fd;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Adds one answer to the list, unless the list has that camera. */
static unsigned take_answer(int fd, char answer[ANSWER], struct found *list, unsigned count) {
  struct sockaddr_in from = {.sin_family = AF_INET};
  socklen_t length = sizeof from;
  ssize_t got = recvfrom(fd, answer, ANSWER - 1, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
  struct found found = {.name = ""};
  answer[got > 0 ? got : 0] = '\0';
  if (got <= 0 || !find_parse(answer, &found)) {
    return count;
  }
  inet_ntop(AF_INET, &from.sin_addr, found.address, sizeof found.address);
  for (unsigned i = 0; i < count; i++) {
    if (strcmp(list[i].endpoint, found.endpoint) == 0) {
      return count;
    }
  }
  list[count] = found;
  return count + 1;
}

static unsigned listen_for(int fd, double seconds, struct found list[MOST_FOUND]) {
  static char answer[ANSWER];
  unsigned count = 0;
  double end = now() + seconds, left;
  while (count < MOST_FOUND && (left = end - now()) > 0) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, (int)(left * 1000) + 1) > 0) {
      count = take_answer(fd, answer, list, count);
    }
  }
  return count;
}

/* -- the list -------------------------------------------------------------------------------------------------------------- */

static json_t *json_safe(const char *text) {
  char *safe = text_safe(text, false);
  json_t *string = json_string(safe ? safe : "");
  free(safe);
  return string ? string : json_string("?");
}

static void print_json(const struct found *list, unsigned count) {
  json_t *all = json_array();
  for (unsigned i = 0; i < count; i++) {
    json_array_append_new(all, json_pack("{s:o, s:o, s:o, s:o}", "address", json_safe(list[i].address), "name",
                                         json_safe(list[i].name), "hardware", json_safe(list[i].hardware), "onvif",
                                         json_safe(list[i].service)));
  }
  json_dumpf(all, stdout, TEXT_JSON);
  putchar('\n');
  json_decref(all);
}

static void cell(struct table *table, const char *text) {
  char *safe = text_safe(text, false);
  table_cell(table, COLOUR_NONE, "%s", safe && *safe ? safe : "-");
  free(safe);
}

static bool print_table(const struct found *list, unsigned count, bool colour) {
  struct table *table = table_new("ADDRESS|NAME|HARDWARE|ONVIF");
  for (unsigned i = 0; table && i < count; i++) {
    cell(table, list[i].address);
    cell(table, list[i].name);
    cell(table, list[i].hardware);
    cell(table, list[i].service);
  }
  bool good = table && table_print(table, stdout, "", colour);
  table_free(table);
  if (good) {
    printf(
        "\nThe path of the stream is in the camera's manual. Try it: framectl camera try rtsp://%s/PATH --credentials FILE\n",
        list[0].address);
  }
  return good;
}

bool find_cameras(const struct invocation *invocation, const char *address, struct problem *problem) {
  int fd = ask(address, problem);
  struct found *list = fd >= 0 ? calloc(MOST_FOUND, sizeof *list) : NULL;
  if (fd >= 0 && !list) {
    problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for a list of cameras");
  }
  if (!list) {
    return false;
  }
  unsigned count = listen_for(fd, invocation->seconds > 0 ? invocation->seconds : PATIENCE, list);
  bool good = true;
  close(fd);
  if (invocation->json) {
    print_json(list, count);
  } else if (count > 0) {
    good = print_table(list, count, invocation->colour) ||
           problem_set(problem, EXIT_STATUS_INTERNAL, NULL, "no memory for a list of cameras");
  } else {
    good = problem_set(problem, EXIT_STATUS_REFUSED,
                       "switch ONVIF and discovery on in the camera; routers and firewalls do not pass its answers on",
                       "no camera answered");
  }
  free(list);
  return good;
}
