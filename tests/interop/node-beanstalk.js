// SPDX-License-Identifier: MIT
// node-beanstalk.js HOST:PORT - the story of README.md, told by node-beanstalk, from npm.
'use strict';
const { Client } = require('node-beanstalk');
const { tell } = require('./story');

// Bodies go and come as they are.
const serializer = { serialize: (body) => Buffer.from(body), deserialize: (body) => body };

// The server's word, where this client has a sentence of its own.
async function spoken(promise) {
    try {
        return await promise;
    } catch (error) {
        throw new Error(error.code);
    }
}

// It answers null or false where the server's word is one of these.
function found(answer, word = 'NOT_FOUND') {
    if (answer === null || answer === false) throw new Error(word);
    return answer;
}

function jobOf(job, word) {
    found(job, word);
    return { id: job.id, body: job.payload };
}

async function open(address, tube) {
    const client = new Client({ ...address, serializer, maxPayloadSize: 1000000, dataReadTimeoutMs: 30000 });
    await client.connect();
    if (tube) {
        await client.use(tube);
        await client.watch(tube);
        await client.ignore('default');
    }
    return {
        tube,
        canPut: () => true,
        put: async (body, { pri = 10, delay = 0, ttr = 60 } = {}) => (await spoken(client.put(body, ttr, pri, delay))).id,
        reserve: async (timeout) =>
            jobOf(await spoken(timeout === undefined ? client.reserve() : client.reserveWithTimeout(timeout)), 'TIMED_OUT'),
        reserveJob: async (id) => jobOf(await client.reserveJob(id)),
        delete: async (id) => found(await client.delete(id)),
        release: async (id, pri, delay) => found(await client.release(id, pri, delay)),
        bury: async (id, pri) => found(await client.bury(id, pri)),
        touch: async (id) => found(await client.touch(id)),
        use: (name) => client.use(name),
        watch: (name) => client.watch(name),
        ignore: async (name) => found(await client.ignore(name), 'NOT_IGNORED'),
        peek: async (id) => jobOf(await client.peek(id)),
        peekReady: async () => jobOf(await client.peekReady()),
        peekDelayed: async () => jobOf(await client.peekDelayed()),
        peekBuried: async () => jobOf(await client.peekBuried()),
        kick: (bound) => client.kick(bound),
        kickJob: async (id) => found(await client.kickJob(id)),
        stats: () => client.stats(),
        statsJob: async (id) => found(await client.statsJob(id)),
        statsTube: async (name) => found(await client.statsTube(name)),
        listTubes: () => client.listTubes(),
        listTubesWatched: () => client.listTubesWatched(),
        listTubeUsed: () => client.listTubeUsed(),
        pauseTube: async (name, delay) => found(await client.pauseTube(name, delay)),
        close: () => client.disconnect(),
    };
}

tell('node-beanstalk', open);
