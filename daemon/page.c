#include "daemon/page.h"

const char status_page[] = "<!doctype html>\n"
                           "<meta charset=utf-8>\n"
                           "<title>framed</title>\n"
                           "<h1>framed</h1>\n"
                           "<ul>\n"
                           "<li><a href=/v1/status>/v1/status</a>: state, ledger and latencies as JSON\n"
                           "<li><a href=/metrics>/metrics</a>: the same for Prometheus\n"
                           "<li><a href=/v1/config>/v1/config</a>: the configuration in force\n"
                           "</ul>\n";
