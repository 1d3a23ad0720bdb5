<?php
// SPDX-License-Identifier: MIT
// pheanstalk.php HOST:PORT - the story of README.md, told by PHP's pheanstalk.
require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception\DeadlineSoonException;
use Pheanstalk\Exception\JobNotFoundException;
use Pheanstalk\Exception\JobTooBigException;
use Pheanstalk\Exception\ServerBadFormatException;
use Pheanstalk\Exception\ServerException;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;

[$host, $port] = explode(':', $argv[1]);
$passed = $failed = 0;

function check(string $sentence, bool $holds): void
{
    global $passed, $failed;
    if ($holds) {
        $passed++;
        return;
    }
    $failed++;
    echo "FAIL pheanstalk: $sentence\n";
}

function equal(string $sentence, $got, $want): void
{
    $texts = array_map(fn ($value) => substr(json_encode($value, JSON_INVALID_UTF8_SUBSTITUTE), 0, 200), [$want, $got]);
    check("$sentence (wanted $texts[0], got $texts[1])", $got === $want);
}

function refused(string $sentence, string $error, callable $call): void
{
    try {
        $call();
        check("$sentence (nothing was thrown)", false);
    } catch (Exception $thrown) {
        check("$sentence (" . get_class($thrown) . ')', $thrown instanceof $error);
    }
}

function not_before(string $sentence, float $least, callable $call): void
{
    $start = hrtime(true);
    $call();
    check("$sentence, not before $least s", hrtime(true) - $start >= ($least - 0.001) * 1e9);
}

// A connection of its own, using and watching only the tube of one chapter.
function connect(?string $tube): Pheanstalk
{
    global $host, $port;
    $client = Pheanstalk::create($host, (int) $port);
    return $tube === null ? $client : $client->useTube($tube)->watchOnly($tube);
}

function take(Pheanstalk $client)
{
    return $client->reserveWithTimeout(10);
}

// What stats say, without the quotes of YAML, which this client leaves on.
function figures($stats, array $names): array
{
    return array_map(fn ($name) => trim($stats[$name], '"'), $names);
}

function tell_cycle(): void
{
    $client = connect('php-cycle');
    $first = $client->put('one')->getId();
    $second = $client->put('two', 7, 0, 90)->getId();
    check('ids rise', $second > $first);
    $job = take($client);
    equal('a smaller priority comes first', [$job->getId(), $job->getData()], [$second, 'two']);
    $stats = $client->statsJob($job);
    equal('a job says what it was put with', figures($stats, ['pri', 'ttr', 'delay']), ['7', '90', '0']);
    equal('a job says where it is', figures($stats, ['id', 'tube', 'state']), ["$second", 'php-cycle', 'reserved']);
    check('a lease has time left', $stats['time-left'] >= 0 && $stats['time-left'] <= 90);
    $client->delete($job);
    refused('a deleted job is gone', JobNotFoundException::class, fn () => $client->peek($job));
    refused('a job is deleted once', JobNotFoundException::class, fn () => $client->delete($job));
    refused('a job that is gone has no stats', ServerException::class, fn () => $client->statsJob($job));
    $job = take($client);
    equal('the other job comes next', $job->getId(), $first);
    $client->delete($job);
    check('then there is none', $client->reserveWithTimeout(0) === null);
}

function tell_tubes(): void
{
    $client = connect(null);
    equal('the tube used at first', $client->listTubeUsed(true), 'default');
    equal('the tubes watched at first', $client->listTubesWatched(true), ['default']);
    $client->useTube('php-tubes');
    equal('the tube used', $client->listTubeUsed(true), 'php-tubes');
    $client->watch('php-tubes')->watch('php-other');
    $watched = $client->listTubesWatched(true);
    sort($watched);
    equal('the tubes watched', $watched, ['default', 'php-other', 'php-tubes']);
    $client->ignore('default')->ignore('php-other');
    equal('a tube is ignored', $client->listTubesWatched(true), ['php-tubes']);
    refused('the last tube is not ignored', ServerException::class, fn () => $client->ignore('php-tubes'));
    check('the list of tubes has it', in_array('php-tubes', $client->listTubes(), true));
    refused('a bad name', ServerBadFormatException::class, fn () => $client->useTube('-bad'));
    refused('a tube that is not there has no stats', ServerException::class, fn () => $client->statsTube('php-none'));
}

function tell_bodies(): void
{
    $client = connect('php-bodies');
    $bytes = implode(array_map('chr', range(0, 255)));
    $bodies = ['every byte' => $bytes . strrev($bytes), 'line ends' => "a\r\nb\r\n\r\n", 'nothing' => '',
        'a put within' => "put 0 0 10 3\r\nabc\r\n", 'the largest' => substr(str_repeat($bytes, 256), 0, 65535)];
    foreach ($bodies as $what => $body) {
        $id = $client->put($body)->getId();
        check("$what: peek shows the body", $client->peek(new JobId($id))->getData() === $body);
        $job = take($client);
        check("$what: reserve gives the body", $job->getId() === $id && $job->getData() === $body);
        $client->delete($job);
    }
    refused('a job that is too big', JobTooBigException::class, fn () => $client->put(str_repeat('x', 65536)));
    equal('the connection goes on after that', $client->listTubeUsed(true), 'php-bodies');
}

function tell_delay(): void
{
    $client = connect('php-delay');
    $job = $client->put('later', 10, 100);
    equal('a delayed job is seen', $client->peekDelayed()->getId(), $job->getId());
    check('a delayed job is not ready', $client->peekReady() === null);
    check('nor is it given', $client->reserveWithTimeout(0) === null);
    equal('its state', figures($client->statsJob($job), ['state', 'delay']), ['delayed', '100']);
    equal('kick makes it ready', $client->kick(10), 1);
    equal('it is ready', $client->peekReady()->getId(), $job->getId());
    $client->delete(take($client));
    not_before('a delay ends', 1, function () use ($client) {
        $client->put('soon', 10, 1);
        $job = $client->reserve();
        equal('reserve waits for it', $job->getData(), 'soon');
        $client->delete($job);
    });
}

function tell_release(): void
{
    $client = connect('php-release');
    $id = $client->put('again')->getId();
    $client->release(take($client), 3);
    equal('a released job is ready', $client->peekReady()->getId(), $id);
    $job = take($client);
    not_before('a release with a delay', 1, function () use ($client, $job) {
        $client->release($job, 4, 1);
        equal('it is delayed', figures($client->statsJob($job), ['state']), ['delayed']);
        take($client);
    });
    $stats = $client->statsJob($job);
    equal('its counts', figures($stats, ['pri', 'releases', 'reserves']), ['4', '2', '3']);
    $client->touch($job);
    equal('touch keeps it reserved', figures($client->statsJob($job), ['state']), ['reserved']);
    $client->delete($job);
    refused('a job that is gone is not touched', JobNotFoundException::class, fn () => $client->touch($job));
    refused('nor released', JobNotFoundException::class, fn () => $client->release($job));
}

function tell_bury(): void
{
    $client = connect('php-bury');
    $jobs = array_map(fn ($i) => $client->put("$i"), [1, 2, 3]);
    foreach ($jobs as $ignored) {
        $client->bury(take($client), 9);
    }
    equal('the oldest burial is seen', $client->peekBuried()->getId(), $jobs[0]->getId());
    equal('a buried job', figures($client->statsJob($jobs[1]), ['state', 'buries', 'pri']), ['buried', '1', '9']);
    $client->kickJob($jobs[1]);
    equal('it is ready', $client->peekReady()->getId(), $jobs[1]->getId());
    equal('it was kicked', figures($client->statsJob($jobs[1]), ['kicks']), ['1']);
    equal('kick takes the rest', $client->kick(10), 2);
    check('none is buried', $client->peekBuried() === null);
    refused('a ready job is not kicked', JobNotFoundException::class, fn () => $client->kickJob($jobs[1]));
    foreach ($jobs as $ignored) {
        $client->delete(take($client));
    }
    check('all came', $client->peekReady() === null);
}

function tell_stats(): void
{
    $client = connect('php-stats');
    $jobs = [$client->put('x', 1), $client->put('y', 1, 100)];
    $names = ['name', 'current-jobs-ready', 'current-jobs-urgent', 'current-jobs-delayed', 'current-jobs-reserved',
        'current-jobs-buried', 'total-jobs', 'current-using', 'current-watching', 'current-waiting'];
    equal('the counts of a tube', figures($client->statsTube('php-stats'), $names),
        ['php-stats', '1', '1', '1', '0', '0', '2', '1', '1', '0']);
    $all = $client->stats();
    check('the counts of the server', $all['current-jobs-ready'] >= 1 && $all['total-jobs'] >= 2 && $all['cmd-put'] >= 2);
    equal('the largest job', $all['max-job-size'], '65535');
    check('its connections', $all['current-connections'] >= 1 && $all['total-connections'] >= $all['current-connections']);
    check('it says what it is', $all['version'] !== '' && $all['pid'] > 0 && $all['uptime'] >= 0);
    array_map([$client, 'delete'], $jobs);
}

function tell_pause(): void
{
    $client = connect('php-pause');
    $client->put('x');
    $client->pauseTube('php-pause', 100);
    check('a paused tube gives nothing', $client->reserveWithTimeout(0) === null);
    equal('it says so', figures($client->statsTube('php-pause'), ['pause', 'cmd-pause-tube']), ['100', '1']);
    not_before('a pause ends', 1, function () use ($client) {
        $client->pauseTube('php-pause', 1);
        $job = $client->reserve();
        equal('then it gives', $job->getData(), 'x');
        $client->delete($job);
    });
    refused('a tube that is not there is not paused', ServerException::class, fn () => $client->pauseTube('php-none', 1));
}

function tell_waiting(): void
{
    $client = connect('php-waiting');
    not_before('a timeout', 1, function () use ($client) {
        check('nothing comes', $client->reserveWithTimeout(1) === null);
    });
    $client->put('x', 10, 0, 2);
    not_before('the last second of a lease', 1, function () use ($client, &$job) {
        $job = take($client);
        refused('is told', DeadlineSoonException::class, fn () => take($client));
    });
    $client->delete($job);
    $other = connect('php-waiting');
    $client->put('for the other');
    equal('two connections', take($other)->getData(), 'for the other');
    check('the job of another is not given', $client->reserveWithTimeout(0) === null);
    unset($other);
    gc_collect_cycles();
    $job = take($client);
    equal('a job goes back when its connection closes', $job->getData(), 'for the other');
    $client->delete($job);
}

tell_cycle();
tell_tubes();
tell_bodies();
tell_delay();
tell_release();
tell_bury();
tell_stats();
tell_pause();
tell_waiting();
echo "$passed passed, $failed failed\n";
exit($failed === 0 ? 0 : 1);
