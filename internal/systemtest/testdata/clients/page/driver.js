
// The rest of the page that the guide's code is for. The server's addresses stand for the gateway's.
const { strict: assert } = await import("node:assert");
const [server, live, coupon] = process.argv.slice(2);
const network = globalThis.fetch;
let longest = 0; // ms that an answer took: the page cannot know the server's time better
globalThis.fetch = async (path, options = {}) => {
  const began = performance.now();
  const to = (path.startsWith("/v1/live/") ? live : server) + path;
  const answer = await network(to, { ...options, headers: { ...options.headers, "X-User-ID": "7" } });
  longest = Math.max(longest, performance.now() - began);
  return answer;
};

await untilOpen(coupon, (left) => assert.ok(left > 0));
for (let tries = 1; ; tries++) {
  const answer = await fetch(`/v1/coupons/${coupon}/applications`, { method: "POST" });
  if (answer.status === 202) break;
  const problem = await answer.json();
  assert.equal(problem.code, "NOT_OPEN");
  const early = Date.parse(problem.opensAt) - Date.parse(problem.serverTime);
  assert.ok(early < 50 + longest && tries < 5, `${early} ms too early, an answer took up to ${longest} ms`);
  await new Promise((wake) => setTimeout(wake, early + 1));
}
await watch(coupon, async () => "token", (state) => console.log(state.status));

const refused = watch("042", async () => "token", () => assert.fail());
await assert.rejects(refused, /INVALID_COUPON_ID/);
