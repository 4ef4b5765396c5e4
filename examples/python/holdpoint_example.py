#!/usr/bin/env python3
"""Write a file, ask for its deletion, wait for a person, and take the write back.

Needs nothing beyond the standard library. HOLDPOINT_SOCKET names the daemon's socket and
HOLDPOINT_TOKEN holds an agent's token. With --no-wait it withdraws the deletion instead of
waiting for somebody.
"""
import http.client
import json
import os
import socket
import sys
import uuid


class Daemon(http.client.HTTPConnection):
    """One connection to the daemon's socket."""

    def __init__(self, path, token):
        super().__init__("localhost", timeout=90)
        self.path, self.token = path, token

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None):
        headers = {"Authorization": "Bearer " + self.token}
        if body is not None:
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        self.request(method, path, body, headers)
        return json.load(self.getresponse())

    def call(self, op, **args):
        # The same request id sent again gets the same answer, whatever happened between.
        return self.ask("POST", "/v1/call", {"op": op, "args": args, "request_id": str(uuid.uuid4()), "intent": "the example in Python"})

    def wait(self, approval_id):
        while True:
            row = self.ask("GET", "/v1/approvals/%s?wait=30s" % approval_id)
            if row["state"] not in ("pending", "approved", "executing"):
                return row


def main():
    daemon = Daemon(os.environ["HOLDPOINT_SOCKET"], os.environ["HOLDPOINT_TOKEN"])
    written = daemon.call("write_file", path="example.txt", content="hello\n")
    if written["status"] != "done":
        sys.exit("write: %s" % written["error"]["message"])
    print("wrote", written["effects"][0]["path"])
    held = daemon.call("delete_file", path="example.txt")
    if held["status"] == "review":
        approval = held["approval"]["id"]
        print("waits for a person:", held["approval"]["title"])
        if "--no-wait" in sys.argv:
            daemon.ask("POST", "/v1/approvals/%s/cancel" % approval, {})
        row = daemon.wait(approval)
        print("ended as", row["state"])
    undone = daemon.ask("POST", "/v1/undo", {"credential": written["undo_credential"]})
    print("undo:", undone["status"] if undone["status"] == "done" else undone["error"]["code"])


if __name__ == "__main__":
    main()
