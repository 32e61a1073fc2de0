/* The smallest front-end under TLS: cc hello_tls.c catchment.c catchment_tls.c -lssl -lcrypto
 * -lpthread && CATCHMENT_TOKEN=... ./a.out catchment://daq1:7100 certificate.pem */
#include <stdio.h>
#include <stdlib.h>
#include "catchment.h"

int main(int count, char **arguments) {
    static unsigned short image[256 * 256];
    const struct catchment_options options = {.tls = &catchment_tls,
                                              .certificate = count > 2 ? arguments[2] : NULL,
                                              .token = getenv("CATCHMENT_TOKEN")};
    catchment *c = catchment_connect(count > 1 ? arguments[1] : "", "camera", &options);
    for (uint64_t key = 0; c && key < 1000; key++) {
        image[0] = (unsigned short)key;
        if (catchment_send(c, 0, key, image, sizeof image) != CATCHMENT_ACCEPTED) break;
    }
    if (c && catchment_close(c, 10000) == 0) return 0;
    fprintf(stderr, "%s\n", catchment_error());
    return 1;
}
