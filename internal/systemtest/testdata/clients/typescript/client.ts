// Talks to apply-api and the management API through the types that openapi-typescript made of the contracts.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths as adminPaths } from "./admin.js";
import type { components, paths } from "./apply.js";
import type { paths as walletPaths } from "./wallet.js";

type Application = components["schemas"]["Application"];

const [server, live, coupon, management, key, financeKey] = process.argv.slice(2) as [
  string, string, string, string, string, string,
];
const client = createClient<paths>({ baseUrl: server });
createClient<walletPaths>({ baseUrl: server });

const path = { id: coupon };
const asUser = (user: string) => ({ path, header: { "X-User-ID": user, "X-Request-ID": "from-the-page" } });

const first = await client.POST("/v1/coupons/{id}/applications", { params: asUser("8") });
assert.equal(first.response.status, 202);
assert.ok(first.data);
assert.equal(first.data.status, "ACCEPTED");
assert.ok(first.data.detail);

const second = await client.POST("/v1/coupons/{id}/applications", { params: asUser("8") });
assert.ok(second.data);
assert.equal(second.data.status, "DUPLICATE");
assert.equal(second.data.appliedAt, first.data.appliedAt);
assert.equal(second.response.headers.get("X-Request-ID"), "from-the-page");

// sentence has a case for each status that the contract has today, and one for those of later versions.
function sentence(application: Application): string {
  switch (application.status) {
    case "PENDING":
      return `place ${application.position}`;
    case "UNDER_REVIEW":
    case "NOT_APPLIED":
    case "UNKNOWN":
      return "wait";
    case "ISSUED":
      return "yours";
    case "NOT_SELECTED":
    case "REJECTED":
      return "not yours";
    default:
      return application.status satisfies never;
  }
}

const standing = await client.GET("/v1/coupons/{id}/applications/me", { params: asUser("8") });
assert.ok(standing.data);
assert.equal(sentence(standing.data), `place ${first.data.position}`);

const stranger = await client.GET("/v1/coupons/{id}/applications/me", { params: asUser("9") });
assert.equal(stranger.response.status, 404);
assert.ok(stranger.error);
assert.equal(stranger.error.code, "NOT_APPLIED");
assert.equal(stranger.error.instance, "urn:jajeong:request:from-the-page");

const shown = await client.GET("/v1/coupons/{id}", { params: { path } });
assert.ok(shown.data);
assert.equal(shown.data.status, "OPEN");

const several = await client.GET("/v1/coupons", { params: { query: { ids: coupon } } });
assert.equal(several.data?.coupons[0]?.couponId, shown.data.couponId);

const clock = await client.GET("/v1/coupons/{id}/time", { params: { path } });
assert.ok(clock.data);
assert.ok(Date.parse(clock.data.serverTime) >= Date.parse(first.data.appliedAt));

const stream = await createClient<paths>({ baseUrl: live }).GET("/v1/live/coupons/{id}/me", {
  params: asUser("8"),
  parseAs: "stream",
});
const reader = stream.data!.pipeThrough(new TextDecoderStream()).getReader();
let text = "";
while (!/^data: .*\n/m.test(text)) {
  const { done, value } = await reader.read();
  assert.ok(!done, text);
  text += value;
}
await reader.cancel();
const event = JSON.parse(/^data: (.*)\n/m.exec(text)![1]!) as Application;
assert.equal(sentence(event), sentence(standing.data));

// A coupon is created as its preview has shown it, once.
const admin = createClient<adminPaths>({ baseUrl: management, headers: { Authorization: `Bearer ${key}` } });
const terms = {
  name: "from TypeScript",
  seats: 3,
  opens: "2031-01-31T12:00:00+09:00",
  closes: "2031-02-01T12:00:00+09:00",
  discountWon: 1000,
  clientKey: "from-typescript",
};
const preview = await admin.POST("/v1/coupons", { body: { ...terms, dryRun: true } });
assert.ok(preview.data && !("job" in preview.data)); // a job is for what takes longer than two seconds
assert.ok(preview.data.digest);
const carriedOut = { ...terms, digest: preview.data.digest, reason: "a test" };
const created = await admin.POST("/v1/coupons", { body: carriedOut });
assert.ok(created.data && !("job" in created.data) && created.data.coupon);
const again = await admin.POST("/v1/coupons", { body: carriedOut });
assert.deepEqual(again.data, created.data);
const found = await admin.GET("/v1/coupons/{coupon}", { params: { path: { coupon: created.data.coupon } } });
assert.equal(found.data?.clientKey, "from-typescript");
const none = await admin.GET("/v1/coupons/{coupon}", { params: { path: { coupon: 999999 } } });
assert.equal(none.error?.code, "DOES_NOT_EXIST");

// A list is text, and not JSON.
const finance = createClient<adminPaths>({ baseUrl: management, headers: { Authorization: `Bearer ${financeKey}` } });
const list = await finance.POST("/v1/coupons/{coupon}/grants", {
  params: { path: { coupon: Number(coupon) }, query: { dryRun: true } },
  body: "user_id\n1\n999999\n",
  bodySerializer: (text) => text,
  headers: { "Content-Type": "text/csv" },
});
assert.ok(list.data && !("job" in list.data));
assert.equal(list.data.users, 2);
