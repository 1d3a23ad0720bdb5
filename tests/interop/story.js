// SPDX-License-Identifier: MIT
// story.js - the story of README.md for the clients of Node.js: what they have in common.
//
// A client is an object with the verbs in camel case. A job is {id, body}; a reserve or peek that
// finds none, and whatever else is refused, throws an Error whose message has the server's word.
'use strict';
const net = require('net');

let passed = 0;
let failed = 0;
let name = '';

function check(sentence, holds) {
    if (holds) {
        passed++;
        return;
    }
    failed++;
    console.log(`FAIL ${name}: ${sentence}`);
}

function equal(sentence, got, want) {
    const texts = [want, got].map((value) => JSON.stringify(value).slice(0, 200));
    check(`${sentence} (wanted ${texts[0]}, got ${texts[1]})`, texts[0] === texts[1]);
}

async function refused(sentence, word, call) {
    try {
        await call();
        check(`${sentence} (nothing was thrown)`, false);
    } catch (error) {
        check(`${sentence} (${error.message})`, error.message.includes(word));
    }
}

async function notBefore(sentence, least, call) {
    const start = process.hrtime.bigint();
    await call();
    check(`${sentence}, not before ${least} s`, process.hrtime.bigint() - start >= BigInt(least * 1e9 - 1e6));
}

// Puts a body that a client has no way to send.
function putRaw(address, tube, body) {
    return new Promise((resolve, reject) => {
        const socket = net.connect(address.port, address.host);
        let answer = '';
        socket.on('error', reject);
        socket.on('data', (data) => {
            answer += data;
            const line = /INSERTED (\d+)\r\n/.exec(answer);
            if (line) {
                socket.destroy();
                resolve(Number(line[1]));
            }
        });
        socket.write(`use ${tube}\r\nput 10 0 60 ${body.length}\r\n`);
        socket.write(Buffer.concat([body, Buffer.from('\r\n')]));
    });
}

async function tellCycle(open) {
    const client = await open('cycle');
    const first = await client.put('one');
    const second = await client.put('two', { pri: 7, ttr: 90 });
    check('ids rise', second > first);
    const job = await client.reserve(10);
    equal('a smaller priority comes first', [job.id, job.body.toString()], [second, 'two']);
    const stats = await client.statsJob(second);
    equal('a job says what it was put with', [stats.pri, stats.ttr, stats.delay], [7, 90, 0]);
    equal('a job says where it is', [stats.id, stats.tube, stats.state], [second, client.tube, 'reserved']);
    check('a lease has time left', stats['time-left'] >= 0 && stats['time-left'] <= 90);
    await client.delete(second);
    await refused('a deleted job is gone', 'NOT_FOUND', () => client.peek(second));
    await refused('a job is deleted once', 'NOT_FOUND', () => client.delete(second));
    await refused('a job that is gone has no stats', 'NOT_FOUND', () => client.statsJob(second));
    equal('the other job comes next', (await client.reserve(10)).id, first);
    await client.delete(first);
    await refused('then there is none', 'TIMED_OUT', () => client.reserve(0));
    await client.close();
}

async function tellTubes(open) {
    const client = await open(null);
    equal('the tube used at first', await client.listTubeUsed(), 'default');
    equal('the tubes watched at first', await client.listTubesWatched(), ['default']);
    const tubes = [`${name}-other`, `${name}-tubes`];
    await client.use(tubes[1]);
    equal('the tube used', await client.listTubeUsed(), tubes[1]);
    for (const tube of tubes) await client.watch(tube);
    equal('the tubes watched', (await client.listTubesWatched()).sort(), ['default', ...tubes].sort());
    await client.ignore('default');
    await client.ignore(tubes[0]);
    equal('a tube is ignored', await client.listTubesWatched(), [tubes[1]]);
    await refused('the last tube is not ignored', 'NOT_IGNORED', () => client.ignore(tubes[1]));
    check('the list of tubes has it', (await client.listTubes()).includes(tubes[1]));
    await refused('a tube that is not there has no stats', 'NOT_FOUND', () => client.statsTube(`${name}-none`));
    await client.close();
}

async function tellBodies(open, address) {
    const client = await open('bodies');
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const bodies = {
        'every byte': Buffer.concat([bytes, Buffer.from(bytes).reverse()]),
        'line ends': Buffer.from('a\r\nb\r\n\r\n'),
        nothing: Buffer.alloc(0),
        'a put within': Buffer.from('put 0 0 10 3\r\nabc\r\n'),
        'the largest': Buffer.alloc(65535, bytes),
        'the largest text': Buffer.alloc(65535, 'x'),
    };
    for (const [what, body] of Object.entries(bodies)) {
        const id = client.canPut(body) ? await client.put(body) : await putRaw(address, client.tube, body);
        check(`${what}: peek shows the body`, (await client.peek(id)).body.equals(body));
        const job = await client.reserve(10);
        check(`${what}: reserve gives the body`, job.id === id && job.body.equals(body));
        await client.delete(id);
    }
    await refused('a job that is too big', 'JOB_TOO_BIG', () => client.put(Buffer.alloc(65536, 'x')));
    equal('the connection goes on after that', await client.listTubeUsed(), client.tube);
    await client.close();
}

async function tellDelay(open) {
    const client = await open('delay');
    const id = await client.put('later', { delay: 100 });
    equal('a delayed job is seen', (await client.peekDelayed()).id, id);
    await refused('a delayed job is not ready', 'NOT_FOUND', () => client.peekReady());
    await refused('nor is it given', 'TIMED_OUT', () => client.reserve(0));
    const stats = await client.statsJob(id);
    equal('its state', [stats.state, stats.delay], ['delayed', 100]);
    equal('kick makes it ready', await client.kick(10), 1);
    equal('it is ready', (await client.peekReady()).id, id);
    equal('reserve-job takes it', (await client.reserveJob(id)).id, id);
    await client.delete(id);
    await refused('reserve-job of a job that is gone', 'NOT_FOUND', () => client.reserveJob(id));
    await notBefore('a delay ends', 1, async () => {
        await client.put('soon', { delay: 1 });
        const job = await client.reserve();
        equal('reserve waits for it', job.body.toString(), 'soon');
        await client.delete(job.id);
    });
    await client.close();
}

async function tellRelease(open) {
    const client = await open('release');
    const id = await client.put('again');
    await client.reserve(10);
    await client.release(id, 3, 0);
    equal('a released job is ready', (await client.peekReady()).id, id);
    await client.reserve(10);
    await notBefore('a release with a delay', 1, async () => {
        await client.release(id, 4, 1);
        equal('it is delayed', (await client.statsJob(id)).state, 'delayed');
        await client.reserve(10);
    });
    const stats = await client.statsJob(id);
    equal('its counts', [stats.pri, stats.releases, stats.reserves], [4, 2, 3]);
    await client.touch(id);
    equal('touch keeps it reserved', (await client.statsJob(id)).state, 'reserved');
    await client.delete(id);
    await refused('a job that is gone is not touched', 'NOT_FOUND', () => client.touch(id));
    await refused('nor released', 'NOT_FOUND', () => client.release(id, 0, 0));
    await refused('nor buried', 'NOT_FOUND', () => client.bury(id, 0));
    await client.close();
}

async function tellBury(open) {
    const client = await open('bury');
    const ids = [];
    for (let i = 0; i < 3; i++) ids.push(await client.put(`${i}`));
    for (let i = 0; i < 3; i++) await client.bury((await client.reserve(10)).id, 9);
    equal('the oldest burial is seen', (await client.peekBuried()).id, ids[0]);
    const stats = await client.statsJob(ids[1]);
    equal('a buried job', [stats.state, stats.buries, stats.pri], ['buried', 1, 9]);
    await client.kickJob(ids[1]);
    equal('it is ready', (await client.peekReady()).id, ids[1]);
    equal('it was kicked', (await client.statsJob(ids[1])).kicks, 1);
    equal('kick takes the rest', await client.kick(10), 2);
    await refused('none is buried', 'NOT_FOUND', () => client.peekBuried());
    await refused('a ready job is not kicked', 'NOT_FOUND', () => client.kickJob(ids[1]));
    for (let i = 0; i < 3; i++) await client.delete((await client.reserve(10)).id);
    await refused('all came', 'NOT_FOUND', () => client.peekReady());
    await client.close();
}

async function tellStats(open) {
    const client = await open('stats');
    const ids = [await client.put('x', { pri: 1 }), await client.put('y', { pri: 1, delay: 100 })];
    const stats = await client.statsTube(client.tube);
    const names = ['name', 'current-jobs-ready', 'current-jobs-urgent', 'current-jobs-delayed', 'current-jobs-reserved',
        'current-jobs-buried', 'total-jobs', 'current-using', 'current-watching', 'current-waiting'];
    equal('the counts of a tube', names.map((key) => stats[key]), [client.tube, 1, 1, 1, 0, 0, 2, 1, 1, 0]);
    const all = await client.stats();
    check('the counts of the server', all['current-jobs-ready'] >= 1 && all['total-jobs'] >= 2 && all['cmd-put'] >= 2);
    equal('the largest job', all['max-job-size'], 65535);
    check('its connections', all['current-connections'] >= 1 && all['total-connections'] >= all['current-connections']);
    check('it says what it is', all.pid > 0 && all.uptime >= 0);
    // Clients compare it as a number, or part by part.
    check(`its version (${all.version})`, Number(all.version) >= 1 && /^\d+(\.\d+)+$/.test(`${all.version}`));
    for (const id of ids) await client.delete(id);
    await client.close();
}

async function tellPause(open) {
    const client = await open('pause');
    const id = await client.put('x');
    await client.pauseTube(client.tube, 100);
    await refused('a paused tube gives nothing', 'TIMED_OUT', () => client.reserve(0));
    const stats = await client.statsTube(client.tube);
    equal('it says so', [stats.pause, stats['cmd-pause-tube']], [100, 1]);
    await notBefore('a pause ends', 1, async () => {
        await client.pauseTube(client.tube, 1);
        equal('then it gives', (await client.reserve()).id, id);
    });
    await client.delete(id);
    await refused('a tube that is not there is not paused', 'NOT_FOUND', () => client.pauseTube(`${name}-none`, 1));
    await client.close();
}

async function tellWaiting(open) {
    const client = await open('waiting');
    await notBefore('a timeout', 1, () => refused('nothing comes', 'TIMED_OUT', () => client.reserve(1)));
    const id = await client.put('x', { ttr: 2 });
    await notBefore('the last second of a lease', 1, async () => {
        await client.reserve(10);
        await refused('is told', 'DEADLINE_SOON', () => client.reserve(10));
    });
    await client.delete(id);
    const other = await open('waiting');
    const waiting = other.reserve(10);
    while ((await client.statsTube(client.tube))['current-waiting'] !== 1) ;
    await client.put('for the other');
    equal('a put wakes a waiting connection', (await waiting).body.toString(), 'for the other');
    await refused('the job of another is not given', 'TIMED_OUT', () => client.reserve(0));
    await other.close();
    const job = await client.reserve(10);
    equal('a job goes back when its connection closes', job.body.toString(), 'for the other');
    await client.delete(job.id);
    await client.close();
}

// open(address, tube) gives a connected client that uses and watches only that tube, or, without
// one, what a new connection uses and watches.
exports.tell = async function tell(client, open) {
    const [host, port] = process.argv[2].split(':');
    const address = { host, port: Number(port) };
    name = client;
    const chapters = [tellCycle, tellTubes, tellBodies, tellDelay, tellRelease, tellBury, tellStats, tellPause, tellWaiting];
    for (const chapter of chapters) {
        await chapter((tube) => open(address, tube && `${client}-${tube}`), address);
    }
    console.log(`${passed} passed, ${failed} failed`);
    process.exit(failed === 0 ? 0 : 1);
};
