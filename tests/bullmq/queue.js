// A queue under test: `queue.js add URL QUEUE JOB [OPTIONS]` adds a job, and `queue.js work URL QUEUE`
// works until it is stopped. A job runs until its name is pushed to the list let-go:NAME; one whose
// name begins with `deaf` lets its worker hang, so that its lock is not renewed.
const { Queue, Worker } = require("bullmq");
const Redis = require("ioredis");

const LOCK_DURATION = Number(process.env.LOCK_DURATION || 30000);
const [, , doing, url, name, job, options] = process.argv;

function connect() {
  return new Redis(url, { maxRetriesPerRequest: null });
}

async function add() {
  const queue = new Queue(name, { connection: connect() });
  await queue.add(job, {}, { jobId: job, ...JSON.parse(options || "{}") });
  await queue.close();
}

async function hold(held) {
  if (held.name.startsWith("deaf")) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000);
  }
  const redis = connect();
  await redis.blpop(`let-go:${held.name}`, 60);
  redis.disconnect();
}

function work() {
  const settings = { connection: connect(), concurrency: 2, lockDuration: LOCK_DURATION };
  const worker = new Worker(name, hold, { ...settings, name: process.env.WORKER_NAME });
  worker.on("ready", () => console.log("ready"));
  worker.on("error", (error) => console.error(error));
}

if (doing === "add") {
  add().then(() => process.exit(0));
} else {
  work();
}
