// Serves fauxqs on loopback: node serve.mjs PORT. Its own command line would listen on every interface.
import { buildApp } from "fauxqs";

const app = buildApp({ logger: false });
await app.listen({ host: "127.0.0.1", port: Number(process.argv[2]) });
