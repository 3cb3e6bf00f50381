// Serves local-aws-sqs on loopback: node serve.cjs PORT REGION ACCOUNT. The package has no command line of its own.
const { createSqsServer } = require("local-aws-sqs");

const [port, region, accountId] = process.argv.slice(2);
createSqsServer({ hostname: "127.0.0.1", port: Number(port), region, accountId });
