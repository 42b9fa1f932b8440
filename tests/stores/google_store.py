#!/usr/bin/env python3
"""A server that answers as Google Cloud Storage does to the requests of gs:// URLs.

    python3 tests/stores/google_store.py --port 9100

Google's XML protocol is that of S3 for reading, listing, writing and uploads in parts, so moto keeps the objects; no emulator
of the XML protocol as a whole is in a registry of packages. What differs stands in front of moto: a request without the
token that the metadata server of a machine in Google's cloud hands out is refused, as Google refuses it.

The same server is that metadata server: start programs with GCE_METADATA_HOST=127.0.0.1:9100, GCE_METADATA_IP of the same
value, and GOOGLE_BASE_URL=http://127.0.0.1:9100. The token is handed out only to requests that say that they know what they
ask (`Metadata-Flavor: Google`), and ends after an hour.
"""

import argparse
import json
import secrets

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"


class Google:
    def __init__(self, inner):
        self.inner, self.token = inner, secrets.token_urlsafe()

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == TOKEN_PATH:
            return self.metadata(environ, start_response)
        if environ.pop("HTTP_AUTHORIZATION", "") != f"Bearer {self.token}":
            return answer(start_response, "401 Unauthorized", b"<Error><Code>AuthenticationRequired</Code></Error>")
        # moto knows the users of Amazon only, and gives a stranger what everybody may read.
        environ["HTTP_X_AMZ_ACL"] = "public-read"
        return self.inner(environ, start_response)

    def metadata(self, environ, start_response):
        if environ.get("HTTP_METADATA_FLAVOR") != "Google":
            return answer(start_response, "403 Forbidden", b"{}")
        token = {"access_token": self.token, "expires_in": 3600, "token_type": "Bearer"}
        return answer(start_response, "200 OK", json.dumps(token).encode())


def answer(start_response, status, body):
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--port", type=int, required=True)
    args = args.parse_args()
    app = Google(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", args.port, app, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
