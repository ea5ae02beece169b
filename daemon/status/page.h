/* The page that a browser gets at the status address: it polls /v1/status and needs nothing from elsewhere. */
#ifndef FRAMED_STATUS_PAGE_H
#define FRAMED_STATUS_PAGE_H

extern const char status_page[];

#endif
