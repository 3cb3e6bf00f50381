// Serves local-aws-sqs on loopback: node serve.cjs PORT. The package has no command line of its own.
const { createSqsServer } = require("local-aws-sqs");

createSqsServer({ hostname: "127.0.0.1", port: Number(process.argv[2]) });
