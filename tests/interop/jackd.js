// SPDX-License-Identifier: MIT
// jackd.js HOST:PORT - the story of README.md, told by jackd, from npm.
'use strict';
const Jackd = require('jackd');
const { tell } = require('./story');

// This client hands YAML over as text.
function yaml(text) {
    const lines = text.split('\n').filter((line) => line !== '' && line !== '---');
    const value = (word) => (/^-?\d+$/.test(word) ? Number(word) : word.replace(/^"(.*)"$/, '$1'));
    if (lines.every((line) => line.startsWith('- '))) return lines.map((line) => value(line.slice(2)));
    return Object.fromEntries(lines.map((line) => /^([^:]+): ?(.*)$/.exec(line).slice(1)).map(([key, word]) => [key, value(word)]));
}

const jobOf = (job) => ({ id: Number(job.id), body: job.payload });

async function open(address, tube) {
    const client = new Jackd();
    await client.connect(address);
    if (tube) {
        await client.use(tube);
        await client.watch(tube);
        await client.ignore('default');
    }
    return {
        tube,
        // It sends texts that are not empty.
        canPut: (body) => body.length > 0 && body.equals(Buffer.from(body.toString())),
        put: async (body, { pri = 10, delay = 0, ttr = 60 } = {}) =>
            Number(await client.put(body.toString(), { priority: pri, delay, ttr })),
        reserve: async (timeout) => jobOf(await (timeout === undefined ? client.reserve() : client.reserveWithTimeout(timeout))),
        reserveJob: async (id) => jobOf(await client.reserveJob(id)),
        delete: (id) => client.delete(id),
        release: (id, priority, delay) => client.release(id, { priority, delay }),
        bury: (id, pri) => client.bury(id, pri),
        touch: (id) => client.touch(id),
        use: (name) => client.use(name),
        watch: (name) => client.watch(name),
        ignore: (name) => client.ignore(name),
        peek: async (id) => jobOf(await client.peek(id)),
        peekReady: async () => jobOf(await client.peekReady()),
        peekDelayed: async () => jobOf(await client.peekDelayed()),
        peekBuried: async () => jobOf(await client.peekBuried()),
        kick: (bound) => client.kick(bound),
        kickJob: (id) => client.kickJob(id),
        stats: async () => yaml(await client.stats()),
        statsJob: async (id) => yaml(await client.statsJob(id)),
        statsTube: async (name) => yaml(await client.statsTube(name)),
        listTubes: async () => yaml(await client.listTubes()),
        listTubesWatched: async () => yaml(await client.listTubesWatched()),
        listTubeUsed: () => client.listTubeUsed(),
        // It forgets to end this line.
        pauseTube: async (name, delay) => {
            const paused = client.pauseTube(name, { delay });
            await client.write(Buffer.from('\r\n'));
            return paused;
        },
        close: () => client.close(),
    };
}

tell('jackd', open);
