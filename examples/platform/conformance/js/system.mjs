// The server itself: health, description, errors.

import { check, has, isDetail, ok, same, unknown } from "./kit.mjs";

check("system.ok", async ({ http }) => {
  const res = await http("GET", "/ok");
  same(res.status, 200);
  same(res.json.ok, true);
});

check("system.ok_with_database", async ({ http }) => {
  same((await http("GET", "/ok?check_db=1")).status, 200);
});

check("system.info", async ({ http }) => {
  const { json } = await http("GET", "/info");
  ok(typeof json.version === "string", "no version");
  has(json.flags, { assistants: true, crons: true });
});

check("system.openapi", async ({ http }) => {
  const res = await http("GET", "/openapi.json");
  same(res.status, 200);
  for (const path of ["/assistants", "/threads/{thread_id}/runs/stream", "/runs/wait", "/store/items", "/runs/crons"]) {
    ok(res.json.paths[path], `${path} is not in it`);
  }
});

check("system.docs", async ({ http }) => {
  const res = await http("GET", "/docs");
  same(res.status, 200);
  ok(res.headers.get("content-type").startsWith("text/html"), "not HTML");
});

check("system.metrics_formats", async ({ http }) => {
  ok(/^# TYPE /m.test((await http("GET", "/metrics?format=prometheus")).text), "no text");
  ok(typeof (await http("GET", "/metrics?format=json")).json === "object", "no JSON");
});

check("system.metrics", async ({ http }) => {
  const res = await http("GET", "/metrics");
  same(res.status, 200);
  ok(res.headers.get("content-type").startsWith("text/plain"), "not text");
  ok(/^# TYPE \w+ (counter|gauge|histogram|summary)$/m.test(res.text), "no metrics");
});

check("system.unknown_route", async ({ http }) => isDetail(await http("GET", "/nope"), 404));

check("system.malformed_json", async ({ http }) => isDetail(await http("POST", "/threads", "{not json"), 400, 422));

check("system.wrong_type", async ({ http }) => {
  isDetail(await http("POST", "/threads/search", { limit: "many" }), 400, 422);
  isDetail(await http("POST", "/runs/wait", { assistant_id: "router", input: {}, stream_mode: 5 }), 400, 422);
});

check("system.missing_field", async ({ http }) => isDetail(await http("POST", "/runs/wait", { input: {} }), 400, 422));

check("system.unknown_fields_are_ignored", async ({ http }) => {
  same((await http("POST", "/threads", { no_such_field: 1 })).status, 200);
});

check("system.cors_preflight", async ({ http }) => {
  const res = await http("OPTIONS", "/threads", undefined, {
    origin: "http://x.test",
    "access-control-request-method": "POST",
  });
  ok(res.status === 200 || res.status === 204, `status ${res.status}`);
  ok(["*", "http://x.test"].includes(res.headers.get("access-control-allow-origin")), "origin not allowed");
});

check("system.cors_exposes_headers", async ({ http }) => {
  const res = await http("GET", "/info", undefined, { origin: "http://x.test" });
  const exposed = res.headers.get("access-control-expose-headers") ?? "";
  for (const header of ["content-location", "x-pagination-total"]) ok(exposed.toLowerCase().includes(header), `${header} is hidden`);
});

check("system.times_and_ids_in_paths_are_checked", async ({ http }) => {
  isDetail(await http("GET", "/threads/not-a-uuid"), 404, 422);
  isDetail(await http("GET", `/threads/${unknown}`), 404);
});
