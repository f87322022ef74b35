// Runs under bun: the public proxy, unmodified, with a fixed token. Prints its
// port and stays.

import { startProxy } from "../node_modules/opencode-cursor-oauth/dist/proxy.js";

const models = [{ id: "auto", name: "Auto" }];
const port = await startProxy(async () => process.env.PEER_TOKEN, models);
console.log(`PORT ${port}`);
setInterval(() => {}, 60_000);
