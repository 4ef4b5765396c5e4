// Writes a file, asks for its deletion, waits for a person, and takes the write back.
//
// Needs nothing beyond Node.js of at least version 22.18, which leaves the types out by itself.
// HOLDPOINT_SOCKET names the daemon's socket and HOLDPOINT_TOKEN holds an agent's token.
// With --no-wait it withdraws the deletion instead of waiting for somebody.
import { randomUUID } from "node:crypto";
import { request } from "node:http";

type Failure = { code: string; message: string };
type Reply = {
  status: "done" | "review" | "refused" | "failed";
  effects: { path: string; change: string }[];
  undo_credential?: object;
  approval?: { id: string; title: string };
  error?: Failure;
};
type Row = { id: string; state: string; note: string; reply?: Reply };

const socketPath = process.env.HOLDPOINT_SOCKET ?? "";
const token = process.env.HOLDPOINT_TOKEN ?? "";

function ask<T>(method: string, path: string, body?: object): Promise<T> {
  const headers: Record<string, string> = { Authorization: `Bearer ${token}` };
  if (body) headers["Content-Type"] = "application/json";
  return new Promise((resolve, reject) => {
    const r = request({ socketPath, method, path, headers }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (piece) => (text += piece));
      answer.on("error", reject);
      answer.on("end", () => {
        try {
          resolve(JSON.parse(text) as T);
        } catch (why) {
          reject(why);
        }
      });
    });
    r.on("error", reject);
    r.end(body ? JSON.stringify(body) : undefined);
  });
}

// The same request id sent again gets the same answer, whatever happened between.
const call = (op: string, args: object) =>
  ask<Reply>("POST", "/v1/call", { op, args, request_id: randomUUID(), intent: "the example in TypeScript" });

async function wait(id: string): Promise<Row> {
  for (;;) {
    const row = await ask<Row>("GET", `/v1/approvals/${id}?wait=30s`);
    if (!["pending", "approved", "executing"].includes(row.state)) return row;
  }
}

const written = await call("write_file", { path: "example.txt", content: "hello\n" });
if (written.status !== "done") throw new Error(written.error?.message);
console.log("wrote", written.effects[0].path);
const held = await call("delete_file", { path: "example.txt" });
if (held.approval) {
  console.log("waits for a person:", held.approval.title);
  if (process.argv.includes("--no-wait")) await ask("POST", `/v1/approvals/${held.approval.id}/cancel`, {});
  console.log("ended as", (await wait(held.approval.id)).state);
}
const undone = await ask<Reply>("POST", "/v1/undo", { credential: written.undo_credential });
console.log("undo:", undone.status === "done" ? "done" : undone.error?.code);
