// Every statement has a value that the contract does not know, and does not compile.
import type { components } from "./apply.js";

type Schemas = components["schemas"];

export const application = (is: Schemas["Application"]) => is.status === "WON";
export const accepted = (is: Schemas["Accepted"]) => is.status === "OK";
export const problem = (is: Schemas["Problem"]) => is.code === "SOLDOUT";
export const coupon = (is: Schemas["Coupon"]) => is.status === "open";
export const cadence: Schemas["Cadence"] = "WEEKLY";
