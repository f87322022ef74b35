// The entrance. OpenCode takes a default export of this shape; there is no other export,
// since it would call every one of them as a plugin.

import { server } from "./plugin.js";

export default { id: "ibeam", server };
